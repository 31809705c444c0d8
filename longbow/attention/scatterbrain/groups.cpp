#include "longbow/attention/scatterbrain/groups.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace longbow {
namespace {

Tensor places(const Tensor& codes) {
  return at::argsort(codes, /*stable=*/true, /*dim=*/-1, /*descending=*/false);
}

Tensor projected(const Tensor& x, const Tensor& planes) {
  return at::einsum("bhnd,rmd->rbhnm", {x, planes.narrow(2, 0, x.size(3))});
}

Tensor moved(const Tensor& x, const Tensor& order) {  // rows of [B, H, N, E]
  return x.gather(2, order.unsqueeze(-1).expand({-1, -1, -1, x.size(3)}));
}

Tensor by_head(const Tensor& x, const Tensor& like) {  // [B, N] -> [B, H, N, 1]
  return x.unsqueeze(1).expand_as(like).unsqueeze(-1);
}

}  // namespace

Codes angular_codes(const Tensor& q, const Tensor& k, const Tensor& planes) {
  const auto bucket = [&](const Tensor& x) {
    const auto u = projected(x, planes);
    return at::cat({u, -u}, -1).argmax(-1);
  };
  return {bucket(q), bucket(k)};
}

Codes cluster_codes(const Tensor& q, const Tensor& k, const Tensor& planes, const Tensor& keep) {
  const auto squares = [](const Tensor& x) { return x.square().sum(-1); };  // [B, H, N]
  const auto longest = [&](const Tensor& x) {
    const auto all = squares(x);
    return (keep.defined() ? all * keep.unsqueeze(1).to(all.scalar_type()) : all).amax(-1, true);
  };
  const auto m = longest(q) + longest(k);
  const auto lifted = [&](const Tensor& x, int64_t coordinate) {
    const auto plane =
        planes.narrow(2, x.size(3) + coordinate, 1).unsqueeze(-1);  // [rounds, 1, 1, 1]
    return projected(x, planes).squeeze(-1) + (m - squares(x)).clamp_min(0).sqrt() * plane;
  };
  return {lifted(q, 1), lifted(k, 0)};
}

Tensor sorted_by(const Codes& codes, const Tensor& keep) {
  const auto all = at::stack({codes.q, codes.k});
  if (!keep.defined()) return places(all);
  return places(all.to(wide(all)).masked_fill(keep.logical_not().unsqueeze(1),
                                              std::numeric_limits<double>::infinity()));
}

Groups::Groups(const Tensor& order, int64_t size, int64_t before)
    : order_(order),
      rank_(places(order)),
      length_(order.size(-1)),
      size_(std::max<int64_t>(1, std::min(size, length_))),
      groups_((length_ + size_ - 1) / size_),
      before_(before) {}

Tensor Groups::cut(const Tensor& x, const Tensor& order) const {
  return at::constant_pad_nd(moved(x, order), {0, 0, 0, groups_ * size_ - length_})
      .unflatten(2, {groups_, size_});
}

// A group of keys after the groups before it; the first has none.
Tensor Groups::beside(const Tensor& x) const {
  if (before_ == 0) return x;
  const auto all = at::constant_pad_nd(x, {0, 0, 0, 0, before_, 0});
  std::vector<Tensor> shifted;
  for (int64_t s = 0; s <= before_; ++s) shifted.push_back(all.narrow(2, s, groups_));
  return at::cat(shifted, 3);
}

Tensor Groups::queries(const Tensor& x, int64_t round) const {
  return cut(x, order_[0][round]);
}

Tensor Groups::keys(const Tensor& x, int64_t round) const {
  return beside(cut(x, order_[1][round]));
}

Tensor Groups::rows(const Tensor& y, int64_t round) const {
  return moved(y.flatten(2, 3).narrow(2, 0, length_), rank_[0][round]);
}

Tensor Groups::share(const Mask& mask, int64_t round, at::ScalarType type) const {
  const auto& like = order_[0][0];
  const auto real =
      mask.keep.defined() ? mask.keep.to(at::kLong) : at::ones({1, length_}, order_.options());
  auto visible = keys(by_head(real, like), round).transpose(-2, -1) > 0;  // [B, H, K, 1, S]
  if (mask.causal) {
    const auto index = by_head(at::arange(length_, order_.options()).unsqueeze(0), like);
    visible = visible.logical_and(keys(index, round).transpose(-2, -1) <= queries(index, round));
  }
  if (rounds() == 1) return visible.to(type).expand({-1, -1, -1, size_, -1});
  Tensor found;
  for (int64_t other = 0; other < rounds(); ++other) {
    const auto group = [&](int64_t side) {
      return rank_[side][other].div(size_, "floor").unsqueeze(-1);
    };
    const auto distance = queries(group(0), round) - keys(group(1), round).transpose(-2, -1);
    const auto inside = (distance >= 0).logical_and(distance <= before_).to(at::kInt);
    found = found.defined() ? found + inside : inside;
  }
  return visible.to(type) / found.clamp_min(1);
}

}  // namespace longbow
