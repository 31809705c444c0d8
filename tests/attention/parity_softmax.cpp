#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

void check_softmax(const Case& c) {
  check_projected(c, "softmax", "");
}
void check_softmax_naive(const Case& c) {
  check_projected(c, "softmax", "{form: naive}");
}
void check_layer(const Case& c) {
  check_block(c, "softmax", "");
}

const Reader self("bert-self", {check_softmax, check_softmax_naive});
const Reader cross("bert-cross", {check_softmax, check_softmax_naive});
const Reader layer("bert-layer", {check_layer});

}  // namespace
}  // namespace longbow::parity
