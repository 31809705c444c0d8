#include "longbow/kernels/philox.h"

#include "longbow/kernels/philox_rounds.h"

namespace longbow::kernels {

LONGBOW_CLONES void philox_uniform(const PhiloxUniform& task) noexcept {
  for (int64_t i = 0; i < task.count; i += 4) {
    const auto block = philox_site(task.key[0], task.key[1], task.site, (task.first + i) / 4);
    for (int64_t j = 0; j < 4 && i + j < task.count; ++j)
      task.out[i + j] = philox_unit(block.word[j]);
  }
}

}  // namespace longbow::kernels
