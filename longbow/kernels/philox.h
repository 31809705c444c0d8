#pragma once
#include <cstdint>

namespace longbow::kernels {

// out[i] is uniform in [0, 1) with 24 bits, a function of (seed, step, site, i) alone: element i is
// word i % 4 of the Philox block with counter (i / 4, step, site) and key seed.
struct PhiloxUniform {
  const int64_t*
      key;  // [2]: seed, step; read where the data lives, so a captured graph sees new steps
  uint64_t site;
  float* out;
  int64_t first, count;  // elements first … first + count - 1; on the GPU first is a multiple of 4
};
void philox_uniform(const PhiloxUniform& task) noexcept;
void philox_uniform_cuda(const PhiloxUniform& task, void* stream) noexcept;

// The same elements in the window of a larger array: out is [slabs, rows, columns] without gaps,
// and (s, r, c) in it is element first + s slab + r row + c.
struct PhiloxWindow {
  const int64_t* key;
  uint64_t site;
  float* out;
  int64_t first, slab, row;
  int64_t slabs, rows, columns;
};
void philox_window(const PhiloxWindow& task) noexcept;
void philox_window_cuda(const PhiloxWindow& task, void* stream) noexcept;

}  // namespace longbow::kernels
