#include "longbow/kernels/philox.h"

#include <algorithm>

#include "longbow/kernels/cpu/philox_blocks.h"

namespace longbow::kernels {

namespace {

LONGBOW_CLONES void fill(const PhiloxUniform& task) {
  uint32_t words[4 * kBlocks];
  int64_t skipped = task.first % 4;  // words of the first block that are not asked for
  for (int64_t i = 0; i < task.count;) {
    philox_blocks(task.key[0], task.key[1], task.site, (task.first + i) / 4, words);
    const int64_t count = std::min(4 * kBlocks - skipped, task.count - i);
    for (int64_t j = 0; j < count; ++j) task.out[i + j] = philox_unit(words[skipped + j]);
    i += count;
    skipped = 0;
  }
}

}  // namespace

void philox_uniform(const PhiloxUniform& task) noexcept {
  fill(task);
}

void philox_window(const PhiloxWindow& task) noexcept {
  for (int64_t s = 0; s < task.slabs; ++s)
    for (int64_t r = 0; r < task.rows; ++r)
      philox_uniform({.key = task.key,
                      .site = task.site,
                      .out = task.out + (s * task.rows + r) * task.columns,
                      .first = task.first + s * task.slab + r * task.row,
                      .count = task.columns});
}

}  // namespace longbow::kernels
