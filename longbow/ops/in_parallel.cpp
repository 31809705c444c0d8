#include "longbow/ops/in_parallel.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

namespace longbow {

// An iterator over bytes that nobody reads: how far a part is from the first one is its number.
void in_parallel(int64_t count, int64_t work, c10::function_ref<void(int64_t, int64_t)> body) {
  if (count <= 0) return;
  constexpr int64_t kWorthwhile = 1 << 16;  // some ten microseconds
  const int64_t grain = std::max<int64_t>(1, kWorthwhile / std::max<int64_t>(work, 1));
  if (count <= grain || at::get_num_threads() == 1 || at::in_parallel_region())
    return body(0, count);
  at::Tensor numbers = at::detail::empty_cpu({count}, at::kByte);
  const auto* const begin = static_cast<const char*>(numbers.const_data_ptr());
  auto iterator = at::TensorIterator::nullary_op(numbers);
  iterator.for_each(
      [&](char** data, const int64_t* strides, int64_t size, int64_t rows) {
        for (int64_t row = 0; row < rows; ++row) {
          const int64_t first = data[0] + row * strides[1] - begin;
          body(first, first + size);
        }
      },
      grain);
}

}  // namespace longbow
