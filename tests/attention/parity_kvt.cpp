#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

void check_kvt(const Case& c) {
  const auto options = "{k: " + std::to_string(c.integer("topk")) + "}";
  c.has("q") ? check_core(c, "kvt", options) : check_projected(c, "kvt", options);
}

const Reader kvt("kvt", {check_kvt});
const SetAside xt("kvt-xt", "a whole encoder");

}  // namespace
}  // namespace longbow::parity
