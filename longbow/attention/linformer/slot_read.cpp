// With the weights p of a piece, and m the share that is not dropped over 1 - rate:
//   y = (m p) v,   dv += (m p)^T dy,   ds = p * (dp - sum_r p dp) where dp = m (dy v^T),
//   dx = ds k,   dk += ds^T x,   db += sum_i ds_i.
#include "longbow/attention/linformer/slot_read.h"

#include <ATen/ATen.h>

#include <limits>

#include "longbow/core/seed.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/group_softmax.h"
#include "longbow/ops/slot_mixture.h"

namespace longbow {
namespace {

struct Plan {
  int64_t heads = 1, piece = 1;
  Tensor hidden = {};  // [1 or B, 1 or N, 1 or H, R] bool, or undefined
  double dropout = 0;  // 0 outside training
  std::string site = "";
  Random random = {};
};

// Tokens first … first + count - 1 of x [B, N, C], with keys [B, H R, C] and bias [B, 1, H R].
class Piece {
 public:
  Piece(const Tensor& x, const Tensor& keys, const Tensor& bias, const Plan& plan, int64_t first)
      : plan_(plan), first_(first), tokens_(x.size(1)), x_(of(x)) {
    const auto k = keys.transpose(1, 2);
    auto scores = bias.defined() ? at::baddbmm(bias, x_, k) : x_.bmm(k);
    scores = scores.to(wide(scores)).unflatten(2, {plan.heads, -1});
    if (plan.hidden.defined()) {
      const auto& hidden = plan.hidden;
      scores.masked_fill_(hidden.size(1) == 1 ? hidden : of(hidden),
                          -std::numeric_limits<double>::infinity());
      weights_ = at::_safe_softmax(scores, -1);
    } else {
      weights_ = scores.softmax(-1);
    }
    if (plan.dropout == 0) return;
    auto noise = at::empty({x.size(0), x_.size(1), keys.size(1)}, x.options().dtype(at::kFloat));
    plan.random.uniform_window(noise, tokens_, keys.size(1), first, 0, plan.site);
    dropped_ = noise.lt(plan.dropout).view_as(weights_);
  }

  Tensor of(const Tensor& t) const {
    return t.narrow(1, first_, std::min(plan_.piece, tokens_ - first_));
  }
  const Tensor& x() const { return x_; }
  // What the values are read with, [B, n, H R]; over 1 - rate is left to the caller.
  Tensor reading(at::ScalarType type) const {
    return (dropped_.defined() ? weights_.masked_fill(dropped_, 0) : weights_).flatten(2).to(type);
  }
  // From the gradient of `reading` to that of the scores.
  Tensor back(const Tensor& gradient) const {
    auto dp = gradient.to(weights_.scalar_type()).view_as(weights_);
    if (dropped_.defined()) dp = dp.masked_fill_(dropped_, 0);
    return at::_softmax_backward_data(dp, weights_, -1, weights_.scalar_type())
        .flatten(2)
        .to(gradient.scalar_type());
  }

 private:
  const Plan& plan_;
  int64_t first_, tokens_;
  Tensor x_, weights_, dropped_;
};

// The same where a kernel turns scores into weights in place.
class KernelPiece {
 public:
  KernelPiece(const Tensor& x, const Tensor& keys, const Tensor& bias, const Plan& plan,
              int64_t first)
      : group_(keys.size(1) / plan.heads),
        count_(std::min(plan.piece, x.size(1) - first)),
        first_(first),
        x_(of(x)),
        scores_(bias.defined() ? at::baddbmm(bias, x_, keys.transpose(1, 2))
                               : x_.bmm(keys.transpose(1, 2))) {
    if (plan.dropout == 0) return;
    TORCH_CHECK(plan.random.key.defined(), plan.site,
                ": random numbers wanted, but the context has no random key");
    dropped_ = {plan.random.key, hash_name(plan.site), plan.dropout, x.size(1), first};
  }
  static bool fits(const Tensor& x, const Tensor& keys, const Plan& plan) {
    return !plan.hidden.defined() && has_group_kernel(x, keys.size(1) / plan.heads);
  }

  Tensor of(const Tensor& t) const { return t.narrow(1, first_, count_); }
  const Tensor& x() const { return x_; }
  // Once one of these: the weights [B, n, H R]; or they and, from their gradient, that of the
  // scores, in its place.
  const Tensor& weights() {
    group_softmax_(scores_, group_, dropped_);
    return scores_;
  }
  const Tensor& weights_and(Tensor& gradient) {
    group_softmax_backward_(scores_, gradient, group_, dropped_);
    return scores_;
  }

 private:
  int64_t group_, count_, first_;
  Tensor x_, scores_;
  DroppedRows dropped_;
};

// sum_n a_n b_n^T over the tokens of all pieces. The result is small, so that the tokens of one
// sequence are shared out among several sums, to keep a GPU busy.
class TokenSums {
 public:
  TokenSums(at::IntArrayRef shape, const at::TensorOptions& options)
      : alone_(shape[0] == 1),
        parts_(at::zeros({alone_ ? kParts : shape[0], shape[1], shape[2]}, options)) {}

  void add(const Tensor& a, const Tensor& b) {  // [B, n, P], [B, n, Q]
    const bool shared = alone_ && a.size(1) % kParts == 0;
    const auto cut = [&](const Tensor& x) {
      return shared ? x.reshape({kParts, -1, x.size(2)}) : x;
    };
    parts_.narrow(0, 0, shared ? kParts : a.size(0)).baddbmm_(cut(a).transpose(1, 2), cut(b));
  }
  Tensor sum() const { return alone_ ? parts_.sum(0, true) : parts_; }

 private:
  static constexpr int64_t kParts = 32;
  bool alone_;
  Tensor parts_;
};

struct SlotRead : Differentiable {
  explicit SlotRead(Plan both) : plan(std::move(both)) {}
  const Plan plan;

  TensorVector forward(const TensorVector& inputs) override {
    const auto &x = inputs[0], &keys = inputs[1], &bias = inputs[2], &values = inputs[3];
    auto y = at::empty({x.size(0), x.size(1), values.size(2)}, x.options());
    const bool kernel = KernelPiece::fits(x, keys, plan);
    for (int64_t first = 0; first < x.size(1); first += plan.piece) {
      if (kernel) {
        KernelPiece piece(x, keys, bias, plan, first);
        auto rows = piece.of(y);
        at::bmm_out(rows, piece.weights(), values);
        continue;
      }
      const Piece piece(x, keys, bias, plan, first);
      auto rows = piece.of(y);
      at::bmm_out(rows, piece.reading(x.scalar_type()), values);
    }
    save(inputs);
    return {y};
  }

  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "slots that are read in pieces have no second derivative");
    const auto kept = saved();
    const auto &x = kept[0], &keys = kept[1], &bias = kept[2], &values = kept[3];
    const auto sums = x.options().dtype(wide(x));
    const auto dx = at::empty_like(x);
    const auto db = bias.defined() ? at::zeros(bias.sizes(), sums) : Tensor();
    if (KernelPiece::fits(x, keys, plan)) {
      TokenSums dk(keys.sizes(), sums), dv(values.sizes(), sums);
      for (int64_t first = 0; first < x.size(1); first += plan.piece) {
        KernelPiece piece(x, keys, bias, plan, first);
        const auto dy = piece.of(gradients[0]);
        auto ds = dy.bmm(values.transpose(1, 2)), rows = piece.of(dx);
        dv.add(piece.weights_and(ds), dy);
        at::bmm_out(rows, ds, keys);
        dk.add(ds, piece.x());
        if (db.defined()) db.add_(ds.sum(1, true));
      }
      return {dx, dk.sum(), db, dv.sum()};
    }
    const auto dk = at::zeros(keys.sizes(), sums), dv = at::zeros(values.sizes(), sums);
    for (int64_t first = 0; first < x.size(1); first += plan.piece) {
      const Piece piece(x, keys, bias, plan, first);
      const auto dy = piece.of(gradients[0]);
      dv.add_(piece.reading(x.scalar_type()).transpose(1, 2).bmm(dy));
      const auto ds = piece.back(dy.bmm(values.transpose(1, 2)));
      auto rows = piece.of(dx);
      at::bmm_out(rows, ds, keys);
      dk.add_(ds.transpose(1, 2).bmm(piece.x()));
      if (db.defined()) db.add_(ds.sum(1, true, db.scalar_type()));
    }
    return {dx, dk.to(x.scalar_type()), db.defined() ? db.to(x.scalar_type()) : db,
            dv.to(x.scalar_type())};
  }
};

// As many tokens as keep their weights in a cache, on a GPU weights and their gradient; or, without
// a kernel, as keep a GPU busy while the next are prepared.
int64_t suitable_piece(const Tensor& x, int64_t row, bool kernel) {
  const int64_t weights = kernel        ? int64_t{5} << 20
                          : x.is_cuda() ? int64_t{1} << 24
                                        : int64_t{1} << 18;
  return std::clamp<int64_t>(weights / (row * x.size(0)), 16, std::max<int64_t>(x.size(1), 16));
}

// Whether kernels read all pieces at once: all tokens see the same slots.
bool reads_at_once(const Tensor& x, const FixedSlots& slots, bool drops) {
  return has_mixture_kernel(x, slots.keys, slots.values, drops) &&
         (!slots.visible.defined() || slots.visible.size(2) == 1);
}
Tensor read_at_once(const Tensor& x, const FixedSlots& slots, const Tensor& values,
                    const Drop& drop) {
  auto bias = slot_bias(slots.keys, slots.bias, slots.visible);
  if (bias.defined()) bias = bias.unsqueeze(1);
  return slot_mixture(x.unsqueeze(1), slots.keys.unsqueeze(1), values.unsqueeze(1), bias, drop)
      .squeeze(1);
}

}  // namespace

Tensor read_in_pieces(const Tensor& x, const FixedSlots& slots, const Weighing& weighing,
                      const Context& context) {
  const double rate = weighing.training ? weighing.dropout : 0;
  const auto site = weighing.path + ".dropout";
  const auto scaled = slots.values * (1 / (1 - rate));
  if (reads_at_once(x, slots, rate > 0))
    return read_at_once(x, slots, scaled,
                        drop_of(weighing.dropout, weighing.training, context, site));
  Plan plan;
  plan.heads = slots.keys.size(1);
  const auto keys = slots.keys.flatten(1, 2);
  if (slots.visible.defined()) plan.hidden = slots.visible.logical_not().transpose(1, 2);
  plan.piece = slots.piece > 0 ? slots.piece
                               : suitable_piece(x, keys.size(1), KernelPiece::fits(x, keys, plan));
  plan.dropout = rate;
  plan.site = site;
  plan.random = context.random;
  const auto bias = slots.bias.defined() ? slots.bias.flatten(1, 2).unsqueeze(1) : Tensor();
  return applied<SlotRead>({x, keys, bias, scaled.flatten(1, 2)}, std::move(plan))[0];
}

}  // namespace longbow
