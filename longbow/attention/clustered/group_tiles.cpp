#include "longbow/attention/clustered/group_tiles.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace longbow {

// Groups follow each other, each filled up to a multiple of W; a row stands behind those of its
// group that come before it.
GroupTiles::GroupTiles(const Tensor& group, int64_t groups, int64_t size) {
  const int64_t n = group.size(2);
  size_ = std::max<int64_t>(1, std::min(size, n));
  tiles_ = (n + std::min(groups, n) * (size_ - 1)) / size_;
  const auto each = at::arange(groups, group.options());
  const auto count = (group.unsqueeze(-1) == each).sum(2);  // [B, H, groups]
  const auto room = (count + size_ - 1).floor_divide(size_) * size_;
  const auto end = room.cumsum(-1);
  const auto order = at::argsort(group, /*stable=*/true, /*dim=*/-1, /*descending=*/false);
  const auto place = at::argsort(order, /*stable=*/true, /*dim=*/-1, /*descending=*/false);
  const auto shift = (end - room) - (count.cumsum(-1) - count);  // by the rooms that are not full
  const auto known = group.clamp_max(groups - 1);
  slot_ = at::where(group < groups, place + shift.gather(2, known), tiles_ * size_);
  const auto first = at::arange(tiles_, group.options()) * size_;
  owner_ = (end.unsqueeze(2) <= first.unsqueeze(-1)).sum(-1).clamp_max(groups - 1);
}

Tensor GroupTiles::cut(const Tensor& x) const {
  const auto empty = at::zeros({x.size(0), x.size(1), tiles_ * size_ + 1, x.size(3)}, x.options());
  return empty.scatter(2, slot_.unsqueeze(-1).expand_as(x), x)
      .narrow(2, 0, tiles_ * size_)
      .unflatten(2, {tiles_, size_});
}

Tensor GroupTiles::rows(const Tensor& y) const {
  return at::constant_pad_nd(y.flatten(2, 3), {0, 0, 0, 1})
      .gather(2, slot_.unsqueeze(-1).expand({-1, -1, -1, y.size(4)}));
}

}  // namespace longbow
