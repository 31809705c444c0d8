#pragma once
// Tokens that hash alike: queries and keys are sorted by a code and cut into groups of W, and a
// query sees the keys of its own group, or of the one before as well. In several rounds the codes
// differ.
#include "longbow/nn/contract/context.h"

namespace longbow {

// Codes [rounds, B, H, N] of queries and of keys [B, H, N, D].
struct Codes {
  Tensor q, k;
};
// The largest of [R x, -R x] for each R [D, buckets / 2] of planes [rounds, buckets / 2, D].
Codes angular_codes(const Tensor& q, const Tensor& k, const Tensor& planes);
// With two coordinates more, q' = [q, 0, sqrt(m - |q|^2)] and k' = [k, sqrt(m - |k|^2), 0], where m
// is the largest |q|^2 plus the largest |k|^2 of real tokens, all are of one length, and the
// nearest have the largest products; each is projected on planes [rounds, 1, D + 2]. keep [B, N] or
// undefined.
Codes cluster_codes(const Tensor& q, const Tensor& k, const Tensor& planes, const Tensor& keep);

// [2, rounds, B, H, N] int64: queries and keys in the order of their codes, padded ones last.
Tensor sorted_by(const Codes& codes, const Tensor& keep);

class Groups {
 public:
  // `before` groups are seen besides a query's own.
  Groups(const Tensor& order, int64_t size, int64_t before);
  int64_t rounds() const { return order_.size(1); }
  // K groups of W queries, [B, H, K, W, E], beside S = (before + 1) W keys, [B, H, K, S, E].
  Tensor queries(const Tensor& x, int64_t round) const;
  Tensor keys(const Tensor& x, int64_t round) const;
  Tensor rows(const Tensor& y, int64_t round) const;  // [B, H, K, W, E] -> [B, H, N, E]
  // [B, H, K, W, S]: 1 / the number of rounds that find the pair; 0 where the mask hides it.
  Tensor share(const Mask& mask, int64_t round, at::ScalarType type) const;

 private:
  Tensor cut(const Tensor& x, const Tensor& order) const;
  Tensor beside(const Tensor& x) const;
  Tensor order_, rank_;  // [2, rounds, B, H, N]
  int64_t length_, size_, groups_, before_;
};

}  // namespace longbow
