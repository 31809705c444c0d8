#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

void check_kvt(const Case& c) {
  const auto options = "{k: " + std::to_string(c.integer("topk")) + "}";
  if (!c.has("q")) return check_projected(c, "kvt", options);
  check_core(c, "kvt", options, {}, {.every_query = true});
}

// Keeps every score that equals the k-th.
void check_kvt_stack(const Case& c) {
  check_stack(c, "kvt",
              "{k: " + std::to_string(c.integer("attn_sparse_topk")) + ", ties: threshold}");
}

const Reader kvt("kvt", {check_kvt});
const Reader xt("kvt-xt", {check_kvt_stack});

}  // namespace
}  // namespace longbow::parity
