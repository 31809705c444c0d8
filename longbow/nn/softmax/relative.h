#pragma once
// Scores that know how far a key is behind its query (Transformer-XL, Dai et al., 2019,
// arXiv:1901.02860):
//   s_ij = ((q_i + u) . k_j + (q_i + v) . r_(i - j)) / sqrt(D),   r_d = W_r R_d,
//   R_d = [sin(d f), cos(d f)],   f_k = 10000^(-2k / C);   or r_d is a learned row of each head.
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/softmax/band.h"

namespace longbow {

struct RelativeConfig {
  int64_t clamp = 0;
  bool shared = true;
};
template <class V>
void fields(V& v, RelativeConfig& c) {
  v("clamp", c.clamp, "keys further away count as this far; 0 = distances as they are",
    range(0, 1 << 30));
  v("shared", c.shared, "u and v are those of the whole stack, otherwise of each layer");
}

class RelativeScores : public Part {
 public:
  // `learned` rows stand for as many distances; 0 = they are made of sinusoids.
  RelativeScores(const Site& site, const RelativeConfig& config, int64_t learned = 0);
  // q + u, whose products with keys are multiplied by scale().
  Tensor content_queries(const Tensor& q) const { return with_bias(q, u_); }
  double scale() const { return scale_; }  // 1 / sqrt D
  // (q + u) . k / sqrt D: [B, H, ..., N, D], [B, H, ..., M, D] -> [B, H, ..., N, M].
  Tensor content(const Tensor& q, const Tensor& k) const;
  // (q + v) . r_d / sqrt D for d = farthest .. 0, where rows that are learned end with the last of
  // them: [B, H, ..., N, D] -> [B, H, ..., N, farthest + 1].
  Tensor by_distance(const Tensor& q, int64_t farthest) const;

 private:
  Tensor distances(int64_t farthest) const;           // farthest .. 0, clamped: [farthest + 1]
  Tensor sinusoids_at(const Tensor& distance) const;  // R_d: [R] -> [R, C]
  Tensor with_bias(const Tensor& q, const Tensor& bias) const;
  RelativeConfig config_;
  int64_t width_;
  double scale_;
  std::shared_ptr<Linear> position_;  // W_r [H D, C], or null
  Tensor table_;                      // [H, distances, D], or undefined
  Tensor u_, v_;                      // [H, D]
};

// What by_distance() gives, moved to the columns of a tile whose first query stands behind
// `farthest` keys: row a is shifted right by a. [..., N, R] -> [..., N, N + R - 1], zero elsewhere.
Tensor skewed(const Tensor& x);

}  // namespace longbow
