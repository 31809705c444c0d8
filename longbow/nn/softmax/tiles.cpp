// Tiles of scores. A row of queries keeps a running maximum m, the sum l of its weights and the
// unnormalised output o, and each tile of keys updates them:
//   a = q k^T,  m' = max(m, max_j a_j),  p = exp(a - m'),  c = exp(m - m'),
//   l <- c l + sum_j p_j,  o <- c o + p v,  m <- m';          at the end o / l, and L = m + ln l.
// The backward pass keeps q, k, v, o and L, and computes the weights p = exp(a - L) again:
//   dv += p^T do,  ds = p * (do v^T - sum_c do_c o_c),  dq += ds k,  dk += ds^T q.
// With relu(a) for weights there is neither m nor l, and ds = do v^T where a > 0.
#include "longbow/nn/softmax/tiles.h"

#include <ATen/ATen.h>

#include <limits>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/tile_attention.h"

namespace longbow {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Everything but q, k and v.
struct Plan {
  Plan(const Tensor& q, const Seen& seen, Tiling sizes)
      : batch(q.size(0)),
        causal(seen.causal),
        hidden(seen.visible.defined() ? seen.visible.logical_not() : Tensor()),
        tiling(std::move(sizes)) {}

  int64_t batch;
  bool causal;
  Tensor hidden;  // [B, 1 or H, 1 or N, M] bool, or undefined
  Tiling tiling;
  bool rectified = false;
  double dropout = 0;  // 0 outside training
  std::string site = "";
  Random random = {};
};

// The tiles of q [G, N, E] and k [G, M, E], G = B H.
class Walk {
 public:
  Walk(const Tensor& q, const Tensor& k, const Plan& plan)
      : q_(q), k_(k), plan_(plan), scores_(room(q.scalar_type())) {
    if (plan.dropout == 0) return;
    noise_ = room(at::kFloat);
    dropped_ = room(at::kBool);
  }

  Tensor room(at::ScalarType type) const {
    return at::empty({q_.size(0) * std::min(plan_.tiling.queries, q_.size(1)) *
                      std::min(plan_.tiling.keys, k_.size(1))},
                     q_.options().dtype(type));
  }
  Tensor shaped(const Tensor& room, const Tile& t) const {
    return room.narrow(0, 0, q_.size(0) * t.rows * t.columns).view({q_.size(0), t.rows, t.columns});
  }

  template <class F>
  void each(const F& body) const {
    const int64_t n = q_.size(1), m = k_.size(1);
    const auto also = plan_.tiling.hide ? plan_.tiling.hide() : OnTile();
    Tile t = {};
    for (t.row = 0; t.row < n; t.row += plan_.tiling.queries) {
      t.rows = std::min(plan_.tiling.queries, n - t.row);
      const int64_t last = t.row + m - n;  // key that the first query of the chunk sees last
      const int64_t end = plan_.causal ? std::clamp<int64_t>(last + t.rows, 0, m) : m;
      for (t.column = 0; t.column < end; t.column += plan_.tiling.keys) {
        t.columns = std::min(plan_.tiling.keys, end - t.column);
        auto a = shaped(scores_, t);
        at::bmm_out(a, t.of_queries(q_), t.of_keys(k_).transpose(1, 2));
        hide(a, t, last);
        if (also) also(t, a);
        body(t, a);
      }
    }
  }

  // Which weights of a tile are dropped, or undefined when none are.
  Tensor dropped(const Tile& t) const {
    if (plan_.dropout == 0) return {};
    auto noise = shaped(noise_, t), dropped = shaped(dropped_, t);
    plan_.random.uniform_window(noise, q_.size(1), k_.size(1), t.row, t.column, plan_.site);
    return at::lt_out(dropped, noise, plan_.dropout);
  }
  void drop(const Tensor& dropped, const Tensor& weights) const {
    if (dropped.defined()) weights.masked_fill_(dropped, 0).mul_(1 / (1 - plan_.dropout));
  }

 private:
  void hide(const Tensor& a, const Tile& t, int64_t last) const {
    const int64_t future = std::max<int64_t>(last + 1, t.column);  // hidden from the first query
    if (const int64_t count = t.column + t.columns - future; plan_.causal && count > 0)
      a.narrow(2, future - t.column, count)
          .masked_fill_(
              at::ones({t.rows, count}, a.options().dtype(at::kBool)).triu_(last + 1 - future),
              -kInfinity);
    if (plan_.hidden.defined()) {
      const auto& hidden = plan_.hidden;
      const auto rows = hidden.size(2) == 1 ? hidden : hidden.narrow(2, t.row, t.rows);
      a.unflatten(0, {plan_.batch, -1})
          .masked_fill_(rows.narrow(3, t.column, t.columns), -kInfinity);
    }
  }

  Tensor q_, k_;
  const Plan& plan_;
  Tensor scores_, noise_, dropped_;
};

// o and L of the softmax.
std::pair<Tensor, Tensor> softmax_sums(const Walk& walk, const Tensor& q, const Tensor& v) {
  // m starts at the least finite number, not at -inf: a row that has seen nothing yet has
  // p = exp(-inf - m) = 0 and c = exp(m - m) = 1 of nothing.
  const double least = q.scalar_type() == at::kDouble ? std::numeric_limits<double>::lowest()
                                                      : std::numeric_limits<float>::lowest();
  const auto o = at::zeros({q.size(0), q.size(1), v.size(2)}, q.options());
  const auto l = at::zeros({q.size(0), q.size(1), 1}, q.options()), m = at::full_like(l, least);
  const auto top_room = at::empty_like(l), sum_room = at::empty_like(l);
  walk.each([&](const Tile& t, const Tensor& a) {
    const auto o_rows = t.of_queries(o), l_rows = t.of_queries(l), m_rows = t.of_queries(m);
    auto top = t.of_queries(top_room), sum = t.of_queries(sum_room);
    at::amax_out(top, a, {2}, true);
    at::maximum_out(top, top, m_rows);
    const auto& p = a.sub_(top).exp_();
    const auto& c = m_rows.sub_(top).exp_();
    at::sum_out(sum, p, {2}, true);
    l_rows.mul_(c).add_(sum);
    walk.drop(walk.dropped(t), p);  // after the sum: what is dropped still counts in it
    o_rows.mul_(c).baddbmm_(p, t.of_keys(v));
    m_rows.copy_(top);
  });
  o.div_(l.clamp_min(1));  // l >= 1 as soon as a key is visible; without one, o = 0
  return {o, m.add_(l.log()).masked_fill_(l == 0, kInfinity)};  // p = exp(a - inf) = 0 again
}

Tensor relu_sums(const Walk& walk, const Tensor& q, const Tensor& v) {
  const auto o = at::zeros({q.size(0), q.size(1), v.size(2)}, q.options());
  walk.each([&](const Tile& t, const Tensor& a) {
    const auto& p = a.relu_();
    walk.drop(walk.dropped(t), p);
    t.of_queries(o).baddbmm_(p, t.of_keys(v));
  });
  return o;
}

struct Tiled : Differentiable {
  explicit Tiled(Plan both) : plan(std::move(both)) {}
  const Plan plan;

  TensorVector forward(const TensorVector& inputs) override {
    const auto &q = inputs[0], &k = inputs[1], &v = inputs[2];
    const Walk walk(q, k, plan);
    const auto [o, lse] =
        plan.rectified ? std::pair{relu_sums(walk, q, v), Tensor()} : softmax_sums(walk, q, v);
    save({q, k, v, plan.rectified ? Tensor() : o, lse});
    return {o};
  }

  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "attention in tiles computes its weights again and has no second derivative; "
                "form: naive of softmax and rela has");
    const auto kept = saved();
    const auto &q = kept[0], &k = kept[1], &v = kept[2], &o = kept[3], &lse = kept[4];
    const auto d_o = gradients[0].contiguous(), dq = at::zeros_like(q), dk = at::zeros_like(k),
               dv = at::zeros_like(v);
    const auto delta = plan.rectified ? Tensor() : (d_o * o).sum(2, true);  // [G, N, 1]
    const Walk walk(q, k, plan);
    const auto room = walk.room(q.scalar_type());
    walk.each([&](const Tile& t, const Tensor& a) {
      const auto rows = t.of_queries(d_o), dropped = walk.dropped(t);
      const auto& p = plan.rectified ? a.relu_() : a.sub_(t.of_queries(lse)).exp_();
      auto ds = walk.shaped(room, t);
      if (dropped.defined()) walk.drop(dropped, ds.copy_(p));
      t.of_keys(dv).baddbmm_((dropped.defined() ? ds : p).transpose(1, 2), rows);
      at::bmm_out(ds, rows, t.of_keys(v).transpose(1, 2));
      walk.drop(dropped, ds);
      if (plan.rectified)
        at::threshold_backward_out(ds, ds, p, 0);
      else
        ds.sub_(t.of_queries(delta)).mul_(p);
      t.of_queries(dq).baddbmm_(ds, t.of_keys(k));
      t.of_keys(dk).baddbmm_(ds.transpose(1, 2), t.of_queries(q));
    });
    return {dq, dk, dv};
  }
};

// Whether the kernels can tell who sees whom, which they do by position and by key.
bool has_kernel(const Tensor& q, const Tensor& k, const Tensor& v, const Seen& seen,
                const Tiling& tiling) {
  return q.is_cpu() && k.sizes().slice(0, 2) == q.sizes().slice(0, 2) && !tiling.hide &&
         q.size(2) >= kEnoughQueries && (!seen.visible.defined() || seen.visible.size(2) == 1) &&
         q.numel() > 0 && v.numel() > 0;
}
Tensor by_kernel(const Tensor& q, const Tensor& k, const Tensor& v, const Seen& seen,
                 TileWeights weights, const DroppedWeights& dropped, double scale) {
  const int64_t n = q.size(2), m = k.size(2);
  BlockRule rule = {.pairs = one_block(n, m), .visibility = {}, .dropped = dropped, .scale = scale};
  if (seen.causal) rule.visibility.ahead = m - n;
  if (seen.visible.defined()) rule.visibility.keep = seen.visible.squeeze(2).expand({-1, -1, m});
  if (has_tile_products(q) && k.scalar_type() == q.scalar_type() &&
      v.scalar_type() == q.scalar_type())
    return attend_tiles(q, k, v, rule, weights);
  return attend_tiles(q.to(wide(q)), k.to(wide(k)), v.to(wide(v)), rule, weights);
}

Tensor flat(const Tensor& x) {
  return x.to(wide(x)).flatten(0, 1).contiguous();
}

Tensor tiled(bool rectified, const Tensor& q, const Tensor& k, const Tensor& v, const Seen& seen,
             const Tiling& tiling, const Weighing& weighing, const Context& context, double scale) {
  if (has_kernel(q, k, v, seen, tiling))
    return by_kernel(q, k, v, seen, rectified ? TileWeights::relu : TileWeights::softmax,
                     dropped_weights(weighing, context), scale);
  Plan plan(q, seen, tiling);
  plan.rectified = rectified;
  plan.dropout = weighing.training ? weighing.dropout : 0;
  plan.site = weighing.path + ".dropout";
  plan.random = context.random;
  return applied<Tiled>({flat(q) * scale, flat(k), flat(v)}, std::move(plan))[0].view(
      {q.size(0), q.size(1), q.size(2), v.size(3)});
}

}  // namespace

Seen Seen::by(const Mask& mask) {
  return {.causal = mask.causal,
          .visible = mask.keep.defined() ? mask.keep.unsqueeze(1).unsqueeze(1) : Tensor()};
}

Tensor Seen::pairs(const Heads& heads) const {
  auto by_index =
      visible_pairs({.causal = causal}, heads.q.size(2), heads.k.size(2), heads.q.device());
  if (!visible.defined()) return by_index;
  return by_index.defined() ? visible.logical_and(by_index) : visible;
}

std::optional<PairSight> Seen::sight(double scale) const {
  if (!visible.defined()) return PairSight{.causal = causal, .scale = scale};
  if (visible.size(1) != 1 || visible.size(2) != 1) return std::nullopt;
  return PairSight{.causal = causal, .keep = visible.flatten(0, 2), .scale = scale};
}

Tiling Tiling::of_rows(int64_t keys) {
  constexpr int64_t kScores = 256 * 1024;
  return {.queries = std::clamp<int64_t>(kScores / std::max<int64_t>(keys, 1), 16, 256),
          .keys = std::max<int64_t>(keys, 1)};
}

void each_tile(const Tensor& q, const Tensor& k, const Seen& seen, const Tiling& tiling,
               const OnTile& body) {
  const at::NoGradGuard constant;
  const Plan plan(q, seen, tiling);
  Walk(flat(q), flat(k), plan).each(body);
}

Tensor tiled_softmax(const Tensor& q, const Tensor& k, const Tensor& v, const Seen& seen,
                     const Tiling& tiling, const Weighing& weighing, const Context& context,
                     double scale) {
  return tiled(false, q, k, v, seen, tiling, weighing, context, scale);
}

Tensor tiled_relu(const Tensor& q, const Tensor& k, const Tensor& v, const Seen& seen,
                  const Tiling& tiling, const Weighing& weighing, const Context& context,
                  double scale) {
  return tiled(true, q, k, v, seen, tiling, weighing, context, scale);
}

Tensor AllPairs::attend(const Heads& heads, Context& context) {
  return read(heads, Seen::by(context.mask), context);
}

void AllPairs::open(State& state, const Heads& empty, int64_t capacity, Context&) {
  open_cache(state, empty, capacity);
}

Tensor AllPairs::grow(const Heads& heads, State& state, Context& context) {
  return in_pieces(heads, context, kPiece, [&](const Heads& piece, Context& inner) {
    const auto cached = grow_cache(piece, state, inner);
    return read({piece.q, cached.k, cached.v, piece.x, piece.source}, {.visible = cached.visible},
                inner);
  });
}

}  // namespace longbow
