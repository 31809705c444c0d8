#include "longbow/kernels/philox.h"

#include "longbow/kernels/philox_rounds.h"

namespace longbow::kernels {

LONGBOW_CLONES void philox_uniform(const PhiloxUniform& task) noexcept {
  const int64_t skipped = task.first % 4;  // words of the first block that are not asked for
  for (int64_t i = -skipped; i < task.count; i += 4) {
    const auto block = philox_site(task.key[0], task.key[1], task.site, (task.first + i) / 4);
    for (int64_t j = i < 0 ? skipped : 0; j < 4 && i + j < task.count; ++j)
      task.out[i + j] = philox_unit(block.word[j]);
  }
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
