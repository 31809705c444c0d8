#include "longbow/kernels/dropout.h"

#include <algorithm>

#include "longbow/kernels/cpu/philox_blocks.h"

namespace longbow::kernels {
namespace {

constexpr int64_t kNumbers = 4 * kBlocks;

// In copies of a fixed size, which cannot be what is written to, so that every loop is a vector
// loop.
template <class T>
[[gnu::always_inline]] inline void scale(const Dropout& task, const uint32_t* words, int64_t from,
                                         int64_t count) {
  const auto rate = static_cast<float>(task.rate);
  const auto kept = static_cast<T>(1 / (1 - task.rate));
  T x[kNumbers] = {}, factor[kNumbers];
  std::copy_n(static_cast<const T*>(task.x) + from, count, x);
  for (int64_t i = 0; i < kNumbers; ++i) factor[i] = philox_unit(words[i]) >= rate ? kept : T{0};
  for (int64_t i = 0; i < kNumbers; ++i) x[i] = factor[i] == T{0} ? T{0} : x[i] * factor[i];
  std::copy_n(x, count, static_cast<T*>(task.y) + from);
}

LONGBOW_CLONES void drop(const Dropout& task) {
  uint32_t words[kNumbers];
  for (int64_t from = 0; from < task.count; from += kNumbers) {
    const int64_t count = std::min(kNumbers, task.count - from);
    philox_blocks(task.key[0], task.key[1], task.site, (task.first + from) / 4, words);
    if (task.type == Element::float32)
      scale<float>(task, words, from, count);
    else
      scale<double>(task, words, from, count);
  }
}

}  // namespace

void dropout(const Dropout& task) noexcept {
  drop(task);
}

}  // namespace longbow::kernels
