#pragma once
// Rows of groups of any size in tiles of one size: a tile holds rows of one group, and the last of
// a group may be partly empty. How many tiles there are does not depend on the groups.
#include "longbow/nn/contract/context.h"

namespace longbow {

class GroupTiles {
 public:
  // group [B, H, N] int64, from 0 to `groups`; rows of the last, `groups` itself, are in no tile.
  GroupTiles(const Tensor& group, int64_t groups, int64_t size);
  Tensor cut(const Tensor& x) const;   // [B, H, N, E] -> [B, H, K, W, E], zero where empty
  Tensor rows(const Tensor& y) const;  // [B, H, K, W, E] -> [B, H, N, E], zero for rows in no tile
  // The group of each tile, [B, H, K] int64; any for one that is empty.
  const Tensor& owner() const { return owner_; }

 private:
  int64_t size_, tiles_;
  Tensor slot_;  // [B, H, N]: where a row stands among K W; K W for those in no tile
  Tensor owner_;
};

}  // namespace longbow
