#pragma once
// Causal products of one head whose sums fade by blocks of columns, or by rows,
// ops/decayed_product.h, on a CPU. Tokens may run backwards, with negative strides.
#include <cstdint>

#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

constexpr int64_t kFadedChunk = 64;
constexpr int64_t faded_chunks(int64_t tokens) {
  return (tokens + kFadedChunk - 1) / kFadedChunk;
}

// `blocks` of `columns` channels beside each other, each with its own decays.
template <class T>
struct FadedBlocks {
  int64_t tokens, width, columns, blocks;
  T scale;
  Rows<const T> x, y;       // [tokens, width]
  Rows<const T> z;          // [tokens, blocks columns]
  Rows<const T> log_decay;  // [tokens, blocks]
  Rows<const T> first;      // [width, blocks columns]: the sums before the first token, or null
  Rows<T> out;              // [tokens, blocks columns]
  Rows<T> last;             // as `first`, after the last token
  T* before;                // [blocks, chunks, width, columns] or null: those before each chunk
};
template <class T>
struct FadedBlocksBackward {
  FadedBlocks<T> past;  // without `out`, `first` and `last`
  Rows<const T> dout;
  Rows<const T> dlast;  // of the sums after the last token
  Rows<T> dx, dy;       // of these blocks alone
  Rows<T> dz, dlog_decay;
  Rows<T> dfirst;
};

template <class T>
void faded_blocks(const FadedBlocks<T>& task) noexcept;
template <class T>
void faded_blocks_backward(const FadedBlocksBackward<T>& task) noexcept;

// The same where each row of the sums, a channel of y, fades by itself: log_decay is [tokens,
// width], and there is one block.
template <class T>
void faded_rows(const FadedBlocks<T>& task) noexcept;
template <class T>
void faded_rows_backward(const FadedBlocksBackward<T>& task) noexcept;

}  // namespace longbow::kernels
