#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// random_blocks [H, blocks - 2, r] are those of the blocks between the first and the last.
void check_bigbird(const Case& c) {
  const auto blocks = at::constant_pad_nd(c.tensors.at("random_blocks"), {0, 0, 1, 1}, -1);
  Compared compared;
  compared.choices[".random_blocks"] = blocks.unsqueeze(0);
  check_projected(c, "bigbird",
                  "{block: " + std::to_string(c.integer("block")) +
                      ", random: " + std::to_string(c.integer("random")) + ", padded_blocks: true}",
                  {}, compared);
}

const Reader bigbird("bigbird", {check_bigbird});

}  // namespace
}  // namespace longbow::parity
