#pragma once
// All pairs of queries and keys, one tile of scores at a time: no N x M tensor is stored, neither
// forward nor backward. Dropped weights are a function of (seed, step, site, b, h, i, j) and of the
// lengths N and M, so tiles of any size drop the same ones, and so does the formula with its N x M
// weights.
#include <optional>

#include "longbow/nn/softmax/softmax.h"
#include "longbow/ops/pair_product.h"

namespace longbow {

// Which keys a query may read.
struct Seen {
  bool causal = false;  // key j when j <= i + (M - N)
  Tensor visible = {};  // [B, 1 or H, 1 or N, M] bool; undefined = all

  static Seen by(const Mask& mask);
  // [.., N or 1, M] bool, the quadratic form; undefined = all.
  Tensor pairs(const Heads& heads) const;
  // As kernels over all pairs take it, where queries of a sequence see the same keys but for the
  // future.
  std::optional<PairSight> sight(double scale) const;
};

struct Tile {
  int64_t row, rows, column, columns;
  Tensor of_queries(const Tensor& x) const { return x.narrow(1, row, rows); }
  Tensor of_keys(const Tensor& x) const { return x.narrow(1, column, columns); }
};
// Looks at the scores [B H, rows, columns] of a tile, where hidden ones are -inf.
using OnTile = std::function<void(const Tile& tile, const Tensor& scores)>;

struct Tiling {
  int64_t queries = 256, keys = 1024;  // in a tile
  // Makes what sets more scores to -inf, the same ones each time; it lives for one pass over the
  // tiles, so that its buffers do.
  std::function<OnTile()> hide = {};

  // Whole rows of scores, as many of them as fill an ordinary tile.
  static Tiling of_rows(int64_t keys);
};

// Scores of q [B, H, N, E] and k [B, H, M, E], tile by tile along the keys of each chunk of
// queries, in float32 at least and in one buffer, outside the graph. Tiles that lie wholly in the
// future are left out.
void each_tile(const Tensor& q, const Tensor& k, const Seen& seen, const Tiling& tiling,
               const OnTile& body);

// sum_j w_ij v_j with w_ij = softmax_j(q_i . k_j scale) or relu(q_i . k_j scale) over the keys that
// are seen; v [B, H, M, D] -> [B, H, N, D], in float32 at least or, where kernels multiply
// bfloat16, in the type of v. A row that sees nothing is zero, and so is its gradient.
Tensor tiled_softmax(const Tensor& q, const Tensor& k, const Tensor& v, const Seen& seen,
                     const Tiling& tiling, const Weighing& weighing, const Context& context,
                     double scale = 1);
Tensor tiled_relu(const Tensor& q, const Tensor& k, const Tensor& v, const Seen& seen,
                  const Tiling& tiling, const Weighing& weighing, const Context& context,
                  double scale = 1);

// An attention that may read all pairs and decodes from a cache of all keys and values.
class AllPairs : public AttentionImpl {
 public:
  AllPairs(const Site& site, double dropout)
      : path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))),
        dropout_(dropout) {}
  Tensor attend(const Heads& heads, Context& context) override;
  void open(State& state, const Heads& empty, int64_t capacity, Context& context) override;
  Tensor grow(const Heads& heads, State& state, Context& context) override;

  static Promises promised(bool stores_pairs = false) {
    const auto launches = stores_pairs ? Launches::constant : Launches::growing;  // tiles
    return {.future = Future::exact,
            .cross = true,
            .decode = true,
            .time = 2,
            .memory = stores_pairs ? 2.0 : 1.0,
            .launches = launches,
            .causal_launches = launches};
  }

 protected:
  // heads.k and heads.v are all there are; in an extension some of them are not written yet, and
  // `seen` hides those.
  virtual Tensor read(const Heads& heads, const Seen& seen, Context& context) = 0;
  bool drops() const { return is_training() && dropout_ > 0; }
  Weighing weighing() const { return {dropout_, is_training(), path_}; }
  Tensor scaled(const Tensor& q) const { return q.to(wide(q)) * scale_; }  // for tiles

  static constexpr int64_t kPiece = 256;  // tokens of an extension that are read at a time
  std::string path_;
  double scale_;

 private:
  double dropout_;
};

}  // namespace longbow
