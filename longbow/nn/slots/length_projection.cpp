#include "longbow/nn/slots/length_projection.h"

#include <ATen/ATen.h>

#include <limits>

#include "longbow/ops/differentiable.h"

namespace longbow {
namespace {

// keep [B, M] -> [B, 1, M, 1], true where a row is padded.
Tensor padded_rows(const Tensor& keep) {
  return keep.logical_not().unsqueeze(1).unsqueeze(-1);
}

// [..., slots so far, D] -> [..., R, D]: later slots hold nothing.
Tensor with_all_slots(const Tensor& x, int64_t slots) {
  return at::constant_pad_nd(x, {0, 0, 0, slots - x.size(-2)});
}

// The filters with the head first: [1 or H, D, D or 1, W].
Tensor filters(const Tensor& weight) {
  return weight.dim() == 3 ? weight.unsqueeze(0) : weight;
}

// w x for w [R, M], x [M, D] of a long sequence. The sum is cut up, because with its small result
// it would keep few multiprocessors busy; its gradients are not, which have large ones.
struct LongSum : Differentiable {
  static constexpr int64_t kParts = 64, kLong = 32768;

  TensorVector forward(const TensorVector& inputs) override {
    const auto &w = inputs[0], &x = inputs[1];
    save(inputs);
    return {w.unflatten(1, {kParts, -1})
                .transpose(0, 1)
                .bmm(x.reshape({kParts, -1, x.size(1)}))
                .sum(0)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    const auto& g = gradients[0];
    const auto kept = saved();
    return {wants_gradient_of(0) ? g.mm(kept[1].t()) : Tensor(),
            wants_gradient_of(1) ? kept[0].t().mm(g) : Tensor()};
  }
};

// w x for w [R, M] or one a head, x [B, H, M, D]. On a GPU matmul would fold a batch into w, which
// transposes its gradients.
Tensor weighed(const Tensor& w, const Tensor& x) {
  const int64_t m = x.size(2);
  if (!x.is_cuda() || w.dim() != 2 || x.size(1) > 1) return w.matmul(x);
  if (x.size(0) > 1 || m < LongSum::kLong || m % LongSum::kParts != 0)
    return w.expand({x.size(0), -1, -1}).bmm(x.squeeze(1)).unsqueeze(1);
  return applied<LongSum>({w, x.flatten(0, 2)})[0].view({1, 1, w.size(0), x.size(3)});
}

// One filter for all heads is expanded, so that the heads stay a dimension of the batch.
Tensor filtered(const Tensor& windows, const Tensor& weight, const char* full, const char* deep) {
  const auto a = filters(weight).expand({windows.size(1), -1, -1, -1});
  return a.size(2) == 1 ? at::einsum(deep, {windows, a.squeeze(2)})
                        : at::einsum(full, {windows, a});
}

}  // namespace

Tensor in_windows(const Tensor& rows, int64_t window, double fill) {
  const int64_t blocks = (rows.size(2) + window - 1) / window;
  const int64_t missing = blocks * window - rows.size(2);
  const auto full = missing > 0 ? at::constant_pad_nd(rows, {0, 0, 0, missing}, fill) : rows;
  return full.unflatten(2, {blocks, window});
}

bool LengthProjection::windowed() const {
  return method != LengthMethod::learnable && method != LengthMethod::fixed_random;
}

bool LengthProjection::pools() const {
  return method == LengthMethod::mean_pool || method == LengthMethod::max_pool;
}

bool LengthProjection::commutes() const {
  return method == LengthMethod::mean_pool || (!windowed() && weight.dim() == 2);
}

Tensor LengthProjection::operator()(const Tensor& rows, const Tensor& keep) const {
  const auto type = rows.scalar_type();
  const auto real = keep.defined() ? rows.masked_fill(padded_rows(keep), 0) : rows;
  if (method == LengthMethod::max_pool) {
    constexpr double kLowest = -std::numeric_limits<double>::infinity();
    const auto seen = keep.defined() ? rows.masked_fill(padded_rows(keep), kLowest) : rows;
    const auto most = with_all_slots(in_windows(seen, window(), kLowest).amax(3), slots);
    const auto empty = mass(rows.size(2), keep, rows.options()).transpose(-2, -1) == 0;
    return most.masked_fill(empty, 0);
  }
  Tensor sums;
  if (method == LengthMethod::convolution)
    sums = with_all_slots(
        filtered(in_windows(real, window()), weight, "bhrwd,hedw->bhre", "bhrwd,hdw->bhrd"), slots);
  else if (method == LengthMethod::mean_pool)
    sums = with_all_slots(in_windows(real.to(wide(rows)), window()).sum(3), slots);
  else
    sums = weighed(weight.narrow(-1, 0, rows.size(2)), real);
  if (scale == LengthScale::none) return sums.to(type);
  const auto all = scale == LengthScale::mass
                       ? mass(rows.size(2), keep, rows.options()).transpose(-2, -1)
                       : (keep.defined() ? keep.sum(1).to(wide(rows)).view({-1, 1, 1, 1})
                                         : at::full({1, 1, 1, 1}, rows.size(2), sums.options()));
  return (sums / all.masked_fill(all == 0, 1)).to(type);
}

Tensor LengthProjection::mass(int64_t rows, const Tensor& keep,
                              const at::TensorOptions& like) const {
  const auto type = like.dtype() == at::kDouble ? at::kDouble : at::kFloat;
  const auto real = keep.defined() ? keep.unsqueeze(1).unsqueeze(-1).to(type)
                                   : at::ones({1, 1, rows, 1}, like.dtype(type));
  const auto sums = windowed() ? with_all_slots(in_windows(real, window()).sum(3), slots)
                               : weight.narrow(-1, 0, rows).abs().to(type).matmul(real);
  return sums.transpose(-2, -1);
}

// [B or 1, H or 1, R or 1, D or 1].
Tensor LengthProjection::slot_bias(const Tensor& keep) const {
  const auto by_slot = bias.unsqueeze(method == LengthMethod::convolution ? -2 : -1);
  const auto by_head = by_slot.dim() == 2 ? by_slot.unsqueeze(0) : by_slot;
  if (!keep.defined()) return by_head.unsqueeze(0);
  return by_head * keep.any(1).view({-1, 1, 1, 1}).to(bias.scalar_type());
}

Tensor LengthProjection::with_bias(const Tensor& filled, const Tensor& keep) const {
  return bias.defined() ? filled + slot_bias(keep) : filled;
}

LengthProjection::Growth LengthProjection::growth(const Tensor& rows, const Tensor& positions,
                                                  const Tensor& keep, const Tensor& past_sums,
                                                  const Tensor& past_mass, bool weigh,
                                                  const std::optional<at::ScalarType>& type) const {
  const auto real = rows.to(type.value_or(wide(rows)));
  const int64_t count = rows.size(2);
  auto weights = weights_at(positions, count, real.options());
  if (keep.defined()) weights = weights.masked_fill(padded_rows(keep), 0);
  Growth grown = {{.rows = filtered_at(real, positions), .weights = weights, .sums = past_sums},
                  {}};
  if (bias.defined()) grown.sums.bias = slot_bias(keep).to(real.scalar_type());
  if (weigh || scale == LengthScale::mass) {
    grown.mass = weights.abs().cumsum(2, wide(weights));
    if (past_mass.defined()) grown.mass = grown.mass + past_mass;
  }
  if (scale == LengthScale::mass) {
    grown.sums.divisor = grown.mass.masked_fill(grown.mass == 0, 1);
  } else if (scale == LengthScale::tokens) {
    const auto seen = positions.defined() ? positions + 1
                      : keep.defined()
                          ? keep.cumsum(1)
                          : at::arange(1, count + 1, rows.options().dtype(at::kLong)).unsqueeze(0);
    grown.sums.divisor = seen.clamp_min(1).unsqueeze(1).unsqueeze(-1).to(wide(real));
  }
  return grown;
}

// w_i: [B or 1, H or 1, T, R].
Tensor LengthProjection::weights_at(const Tensor& positions, int64_t rows,
                                    const at::TensorOptions& like) const {
  const auto integers = like.dtype(at::kLong);
  if (windowed()) {
    const auto places = positions.defined() ? positions : at::arange(rows, integers).unsqueeze(0);
    const auto slot = places.floor_divide(window()).unsqueeze(1).unsqueeze(-1);  // [B, 1, T, 1]
    return (slot == at::arange(slots, integers)).to(like.dtype());
  }
  const auto by_head = weight.dim() == 2 ? weight.unsqueeze(0) : weight;  // [1 or H, R, L]
  if (!positions.defined())
    return by_head.narrow(-1, 0, rows).transpose(-2, -1).unsqueeze(0).to(like.dtype());
  const auto columns = positions.clamp_max(longest - 1);
  return by_head.transpose(-2, -1)
      .index_select(1, columns.flatten())
      .unflatten(1, columns.sizes())
      .transpose(0, 1)
      .to(like.dtype());
}

// A_i x_i.
Tensor LengthProjection::filtered_at(const Tensor& rows, const Tensor& positions) const {
  if (method != LengthMethod::convolution) return rows;
  if (!positions.defined())
    return filtered(in_windows(rows, window()), weight.to(rows.scalar_type()), "bhrwd,hedw->bhrwe",
                    "bhrwd,hdw->bhrwd")
        .flatten(2, 3)
        .narrow(2, 0, rows.size(2));
  const auto a = filters(weight).index_select(3, positions.remainder(window()).flatten());
  const auto own = a.unflatten(3, positions.sizes()).to(rows.scalar_type());  // [1|H, D, D|1, B, T]
  const auto each = own.expand({rows.size(1), -1, -1, -1, -1});
  return each.size(2) == 1 ? at::einsum("bhtd,hdbt->bhtd", {rows, each.squeeze(2)})
                           : at::einsum("bhtd,hedbt->bhte", {rows, each});
}

Tensor initial_length_weight(const Site& site, const std::string& name, at::IntArrayRef shape,
                             LengthMethod method, LengthStart start) {
  const bool convolution = method == LengthMethod::convolution;
  const int64_t last = shape.back(), before = shape[shape.size() - 2];
  if (start == LengthStart::block_average) {
    if (convolution)  // each channel the mean of its window
      return (before == 1 ? at::ones({shape[shape.size() - 3], 1}) : at::eye(before))
          .unsqueeze(-1)
          .div(static_cast<double>(last))
          .expand(shape)
          .contiguous();
    const auto slot = at::arange(last).mul(before).floor_divide(last);
    const auto member = (slot == at::arange(before).unsqueeze(1)).to(at::kFloat);
    return (member / member.sum(1, true).clamp_min(1)).expand(shape).contiguous();
  }
  const auto fan_in = static_cast<double>(convolution ? before * last : last);
  const auto fan_out = convolution ? fan_in : static_cast<double>(before);
  if (start == LengthStart::uniform)
    return initial_uniform(site, name, shape, 1 / std::sqrt(fan_in));
  return initial_normal(site, name, shape, std::sqrt(2 / (fan_in + fan_out)));
}

}  // namespace longbow
