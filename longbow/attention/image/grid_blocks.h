#pragma once
// Blocks of a grid and what stands around each of them. Tokens fill the grid in raster order, or
// block by block, blocks and the cells of a block in raster order. Cells are looked up by their
// places in the sequence, so that either order is read alike.
#include "longbow/nn/softmax/softmax.h"

namespace longbow {

struct GridBlocks {
  int64_t columns;                      // of the grid
  int64_t height, width;                // of a block
  int64_t flange_rows, flange_columns;  // around it
  bool by_blocks;                       // the order of tokens; blocks then fill the columns

  // Softmax attention of queries to what is in their block and around it; q is scaled already.
  Tensor attend(const Heads& heads, const Weighing& weighing, Context& context) const;

  // A ring of keys and values, and new tokens that read it.
  void open(State& state, const Heads& empty, int64_t capacity) const;
  Tensor grow(const Heads& heads, State& state, const Weighing& weighing, Context& context) const;

 private:
  struct Cells {
    Tensor row, column;
  };
  int64_t across() const { return (columns + width - 1) / width; }  // blocks side by side
  int64_t reach() const;  // tokens that a causal query reads back, at most
  Cells cells(const Tensor& places) const;
  Tensor places(const Cells& cells) const;  // -1 outside of the grid
  // Places of the cells in and around the blocks of given cells [.., 1], nothing below when causal:
  // [.., cells].
  Tensor places_around(const Cells& cells, bool causal) const;
  Tensor grow_piece(const Heads& heads, State& state, const Weighing& weighing,
                    Context& context) const;
};

}  // namespace longbow
