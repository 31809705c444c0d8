#pragma once
// Rows of a table by their numbers, and the sums over tokens that are the table's gradient.
#include <cstdint>

#include "longbow/kernels/element.h"

namespace longbow::kernels {

// y_i = words[tokens_i] + positions[i % length], added in float32 and rounded once; NaN for a token
// outside of the table.
struct Embed {
  Element type;           // float32 or a half type
  const void* words;      // [words_count, width]
  const int64_t* tokens;  // [rows]
  const void* positions;  // [length, width], or null; `length` is then any number
  void* y;                // [rows, width]
  int64_t rows, length, words_count, width;
};

// sums[p][w] = the sum of dy_i over the tokens i of part p with tokens_i == w; none of `padding`
// and none outside of the table. A row with a number that is not finite may spoil other words' sums
// too.
struct WordSums {
  Element type;           // a half type
  const void* dy;         // [rows, width]
  const int64_t* tokens;  // [rows]
  float* sums;            // [parts, words, width]
  int64_t rows, words, width, padding, parts;
};

// Whether rows can be read 16 bytes at a time, and are not too wide for a group of threads.
constexpr bool embed_fits(Element type, int64_t width) {
  return type != Element::float64 && width > 0 && width <= 1024 &&
         width % (type == Element::float32 ? 4 : 8) == 0;
}
constexpr bool word_sums_fit(Element type, int64_t words, int64_t width) {
  return (type == Element::bfloat16 || type == Element::float16) && words > 0 && words <= 1024 &&
         width > 0 && width <= 256 && width % 16 == 0;
}
// Into how many parts the tokens are split.
int64_t word_sum_parts(int64_t rows, int64_t words, int64_t width) noexcept;

// Addresses are multiples of 16 bytes.
void embed_cuda(const Embed& task, void* stream) noexcept;
void word_sums_cuda(const WordSums& task, void* stream) noexcept;

}  // namespace longbow::kernels
