#include "longbow/ops/decayed_product.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/kernels/decayed_product.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

// out, the sums after the last token, and those before each chunk in a form of the device's own.
Three by_aten(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& log_decay,
              const Maybe& sums, bool columns, bool reversed, double scale) {
  auto after = sums.value_or(Tensor());
  const auto out = decayed_product_formula(
      x, y, z, log_decay,
      {.fading = columns ? Fading::columns : Fading::rows, .scale = scale, .reversed = reversed},
      after);
  return {out, after, at::empty({0}, log_decay.options())};
}

Three on_meta(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& log_decay,
              const Maybe& sums, bool columns, bool, double) {
  check_decayed_product(x, y, z, log_decay, columns ? Fading::columns : Fading::rows);
  auto sizes = z.sizes().vec();
  sizes[sizes.size() - 2] = x.size(-1);
  return {at::empty_like(z), sums ? at::empty_like(*sums) : at::empty(sizes, log_decay.options()),
          at::empty({0}, log_decay.options())};
}
Five backward_on_meta(const Tensor&, const Tensor& dsums, const Tensor& x, const Tensor& y,
                      const Tensor& z, const Tensor& log_decay, const Tensor&, bool, bool, double) {
  return {at::empty_like(x), at::empty_like(y), at::empty_like(z), at::empty_like(log_decay),
          at::empty_like(dsums)};
}

Three call(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& log_decay,
           const Maybe& sums, bool columns, bool reversed, double scale) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::decayed_product", "")
                             .typed<decltype(by_aten)>();
  return op.call(x, y, z, log_decay, sums, columns, reversed, scale);
}
Five call_backward(const Tensor& dout, const Tensor& dsums, const Tensor& x, const Tensor& y,
                   const Tensor& z, const Tensor& log_decay, const Tensor& before, bool columns,
                   bool reversed, double scale) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::decayed_product_backward", "")
                             .typed<decltype(backward_on_meta)>();
  return op.call(dout, dsums, x, y, z, log_decay, before, columns, reversed, scale);
}

// That of the kernels.
struct Gradient : Differentiable {
  Gradient(bool by_column, bool from_behind, double factor)
      : columns(by_column), reversed(from_behind), scale(factor) {}
  const bool columns, reversed;
  const double scale;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto &x = inputs[0], &y = inputs[1], &z = inputs[2], &log_decay = inputs[3];
    const auto sums = inputs[4].defined() ? Maybe(inputs[4]) : Maybe();
    const auto [out, after, before] = call(x, y, z, log_decay, sums, columns, reversed, scale);
    save({x, y, z, log_decay, before});
    no_gradient_of({before});
    return {out, after, before};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "decayed_product has no second derivative here");
    const auto kept = saved();

    const auto [dx, dy, dz, dlog_decay, dsums] =
        call_backward(gradients[0], gradients[1], kept[0], kept[1], kept[2], kept[3], kept[4],
                      columns, reversed, scale);
    return {dx, dy, dz, dlog_decay, dsums};
  }
};

// The formula is recorded as it is.
Three with_gradient(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& log_decay,
                    const Maybe& sums, bool columns, bool reversed, double scale) {
  const auto before = sums.value_or(Tensor());
  if (!has_decay_kernel(x, y, z, log_decay, columns ? Fading::columns : Fading::rows))
    return by_aten(x, y, z, log_decay, sums, columns, reversed, scale);
  if (!wants_gradient(x, y, z, log_decay, before)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(x, y, z, log_decay, sums, columns, reversed, scale);
  }
  const auto found = applied<Gradient>({x, y, z, log_decay, before}, columns, reversed, scale);
  return {found[0], found[1], found[2]};
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "decayed_product(Tensor x, Tensor y, Tensor z, Tensor log_decay, Tensor? sums, bool columns, "
      "bool reversed, float scale) -> (Tensor out, Tensor sums, Tensor before)");
  m.def(
      "decayed_product_backward(Tensor dout, Tensor dsums, Tensor x, Tensor y, Tensor z, "
      "Tensor log_decay, Tensor before, bool columns, bool reversed, float scale) -> "
      "(Tensor dx, Tensor dy, Tensor dz, Tensor dlog_decay, Tensor dsums)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("decayed_product", by_aten);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("decayed_product", on_meta);
  m.impl("decayed_product_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("decayed_product", with_gradient);
}

}  // namespace

Tensor decayed_product(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& log_decay,
                       const DecayedProduct& how, Tensor& sums) {
  const auto found = call(x, y, z, log_decay, sums.defined() ? Maybe(sums) : Maybe(),
                          how.fading == Fading::columns, how.reversed, how.scale);
  sums = std::get<1>(found);
  return std::get<0>(found);
}

bool fades_by_block(const Tensor& log_decay, Fading fading) {
  return fading == Fading::columns || log_decay.size(-1) == 1;
}

bool has_decay_kernel(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& log_decay,
                      Fading fading) {
  for (const auto& t : {x, y, z})
    if (!t.is_cuda() || t.scalar_type() != at::kBFloat16 || t.dim() != 4 || t.numel() == 0)
      return false;
  constexpr int64_t kMostHeads = 65535;  // of all sequences
  const bool alike = x.sizes() == y.sizes() && z.sizes().slice(0, 3) == x.sizes().slice(0, 3) &&
                     log_decay.dim() == 4 && log_decay.sizes().slice(0, 3) == x.sizes().slice(0, 3);
  if (!alike || log_decay.scalar_type() != at::kFloat || x.size(0) * x.size(1) > kMostHeads)
    return false;
  const int64_t decays = log_decay.size(3);
  if (fades_by_block(log_decay, fading))
    return decays <= kernels::kMostBlocks && x.size(0) * x.size(1) * decays <= kMostHeads &&
           z.size(3) % decays == 0 && kernels::block_shape(x.size(3), z.size(3) / decays).rows > 0;
  return decays == x.size(3) && kernels::decay_shape(x.size(3), z.size(3)).rows > 0;
}

}  // namespace longbow
