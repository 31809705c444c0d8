#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

void check_linear(const Case& c) {
  check_core(c, "linear", "{epsilon: 1e-6}");
}

const Reader idiap("linear-idiap-elu", {check_linear});
const SetAside lucid("linear-lucid",
                     "softmax features over channels and positions: not the paper's map");
const SetAside fla("linear-attention",
                   "features and values of other widths: the op is tested in tests/ops");

}  // namespace
}  // namespace longbow::parity
