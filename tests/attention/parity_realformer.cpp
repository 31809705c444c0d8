#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

void check_realformer(const Case& c) {
  check_stack(c, c.flag("residual_attn", true) ? "realformer" : "softmax", "");
}

const Reader reader("realformer", {check_realformer});

}  // namespace
}  // namespace longbow::parity
