#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

void check_cosformer(const Case& c) {
  check_projected(c, "cosformer",
                  "{max_length: " + std::to_string(c.integer("M")) + ", memory: positions}");
}

const Reader cosformer("cosformer", {check_cosformer});

}  // namespace
}  // namespace longbow::parity
