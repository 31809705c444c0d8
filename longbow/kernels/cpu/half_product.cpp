// As tile_product.cpp: a word of a is read once for every few vectors of b, and every vector of b
// once for every few rows. One instruction adds two products to each of 16 sums.
#include "longbow/kernels/cpu/half_product.h"

#include "longbow/kernels/cpu/machine.h"

#ifdef __x86_64__
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "longbow/kernels/cpu/transpose.h"

// Each function that is called with vectors, or that makes them, is compiled for this machine.
#define LONGBOW_HALVES \
  __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))

namespace longbow::kernels {
namespace {

constexpr int64_t kLane = 16;  // words or sums of a vector
constexpr __mmask16 kAll = 0xffff;

LONGBOW_HALVES inline __m512i word_everywhere(const char* from) {
  int32_t word;
  std::memcpy(&word, from, sizeof word);
  return _mm512_set1_epi32(word);
}

template <int kRows, int kColumns>
LONGBOW_HALVES inline void tile(const HalfProduct& p, int64_t row, int64_t column) {
  constexpr int64_t kWord = sizeof(int32_t);
  const char* a = static_cast<const char*>(p.a) + row * p.a_row * kWord;
  const char* b = static_cast<const char*>(p.b) + column * kWord;
  float* const out = p.out + row * p.out_row + column;
  __m512 sum[kRows][kColumns];
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j) sum[i][j] = _mm512_setzero_ps();
  for (int64_t l = 0; l < p.depth; ++l, a += p.a_step * kWord, b += p.b_row * kWord) {
    __m512i y[kColumns];
    for (int j = 0; j < kColumns; ++j) y[j] = _mm512_loadu_si512(b + j * kLane * kWord);
    for (int i = 0; i < kRows; ++i) {
      const __m512i x = word_everywhere(a + i * p.a_row * kWord);
      for (int j = 0; j < kColumns; ++j)
        sum[i][j] = _mm512_dpbf16_ps(sum[i][j], (__m512bh)x, (__m512bh)y[j]);
    }
  }
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j) {
      float* const to = out + i * p.out_row + j * kLane;
      _mm512_storeu_ps(to, p.add ? _mm512_add_ps(sum[i][j], _mm512_loadu_ps(to)) : sum[i][j]);
    }
}

template <int kCount, int kColumns>
LONGBOW_HALVES inline void last_rows(const HalfProduct& p, int64_t row, int64_t column) {
  if constexpr (kCount > 0) {
    if (p.rows - row == kCount)
      tile<kCount, kColumns>(p, row, column);
    else
      last_rows<kCount - 1, kColumns>(p, row, column);
  }
}

template <int kColumns>
LONGBOW_HALVES inline void all_rows(const HalfProduct& p, int64_t column) {
  constexpr int kRows = 8;
  int64_t row = 0;
  for (; row + kRows <= p.rows; row += kRows) tile<kRows, kColumns>(p, row, column);
  if (row < p.rows) last_rows<kRows - 1, kColumns>(p, row, column);
}

// Up to 16 numbers in words of their own.
LONGBOW_HALVES inline __m512i words_of(const Bfloat16* from, int64_t count) {
  const auto kept = static_cast<__mmask16>((1U << std::min(count, kLane)) - 1);
  return _mm512_maskz_cvtepu16_epi32(kAll, _mm256_maskz_loadu_epi16(kept, from));
}

// float32 rounded to bfloat16, in words of their own.
LONGBOW_HALVES inline __m512i rounded(const float* from) {
  return _mm512_maskz_cvtepu16_epi32(kAll, (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from)));
}

// Words of a low and a high half.
LONGBOW_HALVES inline __m512i pairs_of(__m512i low, __m512i high) {
  return _mm512_or_si512(low, _mm512_maskz_slli_epi32(kAll, high, 16));
}

}  // namespace

bool has_half_products() {
  static const bool here =
      instructions_here() == Instructions::avx512 && __builtin_cpu_supports("avx512bf16");
  return here;
}

LONGBOW_HALVES void half_product(const HalfProduct& task) {
  const int64_t vectors = (task.columns + kLane - 1) / kLane;
  int64_t c = 0;
  for (; c + 2 <= vectors; c += 2) all_rows<2>(task, c * kLane);
  if (c < vectors) all_rows<1>(task, c * kLane);
}

LONGBOW_HALVES void pair_rows(const Bfloat16* rows, int64_t row, int64_t count, int64_t width,
                              void* to, int64_t columns) {
  auto* words = static_cast<char*>(to);
  for (int64_t l = 0; l < count; l += 2)
    for (int64_t c = 0; c < columns; c += kLane, words += sizeof(__m512i)) {
      const Bfloat16* const first = rows + l * row + c;
      const int64_t there = std::max<int64_t>(width - c, 0);
      const __m512i low = words_of(first, there),
                    high = words_of(first + row, l + 1 < count ? there : 0);
      _mm512_storeu_si512(words, pairs_of(low, high));
    }
}

LONGBOW_HALVES void pair_columns(const Bfloat16* rows, int64_t row, int64_t count, int64_t width,
                                 void* to, int64_t columns) {
  transpose_rows<Avx512, int32_t>(reinterpret_cast<const int32_t*>(rows), row / 2, count,
                                  (width + 1) / 2, 1, static_cast<int32_t*>(to), columns);
}

LONGBOW_HALVES void halve_rows(const float* from, int64_t rows, int64_t columns, void* to) {
  auto* words = static_cast<char*>(to);
  for (int64_t i = 0; i < rows * columns; i += 2 * kLane, words += sizeof(__m512i)) {
    const auto low = _mm512_loadu_ps(from + i), high = _mm512_loadu_ps(from + i + kLane);
    _mm512_storeu_si512(words, (__m512i)_mm512_cvtne2ps_pbh(high, low));
  }
}

LONGBOW_HALVES void halve_columns(const float* from, int64_t rows, int64_t columns, void* to) {
  auto* words = static_cast<char*>(to);
  for (int64_t l = 0; l < rows; l += 2)
    for (int64_t c = 0; c < columns; c += kLane, words += sizeof(__m512i)) {
      const float* const first = from + l * columns + c;
      const __m512i low = rounded(first),
                    high = l + 1 < rows ? rounded(first + columns) : _mm512_setzero_si512();
      _mm512_storeu_si512(words, pairs_of(low, high));
    }
}

}  // namespace longbow::kernels

#else

namespace longbow::kernels {

bool has_half_products() {
  return false;
}
void half_product(const HalfProduct&) {}
void pair_rows(const Bfloat16*, int64_t, int64_t, int64_t, void*, int64_t) {}
void pair_columns(const Bfloat16*, int64_t, int64_t, int64_t, void*, int64_t) {}
void halve_rows(const float*, int64_t, int64_t, void*) {}
void halve_columns(const float*, int64_t, int64_t, void*) {}

}  // namespace longbow::kernels
#endif
