#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

void check_softmax(const Case& c) {
  check_projected(c, "softmax", "");
}
void check_softmax_naive(const Case& c) {
  check_projected(c, "softmax", "{form: naive}");
}

const Reader self("bert-self", {check_softmax, check_softmax_naive});
const Reader cross("bert-cross", {check_softmax, check_softmax_naive});
const SetAside layer("bert-layer", "a whole block with post-norm, not one mixer");

}  // namespace
}  // namespace longbow::parity
