#include "longbow/ops/centroids.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Three = std::tuple<Tensor, Tensor, Tensor>;

at::ScalarType wide(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

void check(const Tensor& x, const Tensor& centroids) {
  TORCH_CHECK(x.dim() == 4 && centroids.dim() == 3 && centroids.size(0) == x.size(1) &&
                  centroids.size(2) == x.size(3) && centroids.size(1) > 0,
              "centroid_cosines: x is ", x.sizes(), " but centroids are ", centroids.sizes());
}

Three by_formula(const Tensor& x, const Tensor& centroids, double least) {
  const auto found = centroid_cosines_formula(x, centroids, least);
  return {found.cosines, found.inverse, found.nearest};
}
Three on_meta(const Tensor& x, const Tensor& centroids, double) {
  const auto rows = x.sizes().slice(0, 3);
  const auto options = x.options().dtype(wide(x));
  return {at::empty({x.size(0), x.size(1), x.size(2), centroids.size(1)}, options),
          at::empty(rows, options), at::empty(rows, options.dtype(at::kLong))};
}
Tensor backward_on_meta(const Tensor&, const Tensor& x, const Tensor&, const Tensor&, const Tensor&,
                        double) {
  return at::empty_like(x);
}
Tensor sums_on_meta(const Tensor& x, const Tensor& inverse, const Tensor&, int64_t clusters) {
  return at::empty({x.size(1), clusters, x.size(3)}, inverse.options());
}

Three call(const Tensor& x, const Tensor& centroids, double least) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::centroid_cosines", "")
                             .typed<decltype(by_formula)>();
  return op.call(x, centroids, least);
}
Tensor call_backward(const Tensor& dcosines, const Tensor& x, const Tensor& centroids,
                     const Tensor& cosines, const Tensor& inverse, double least) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::centroid_cosines_backward", "")
                             .typed<decltype(centroid_cosines_formula_backward)>();
  return op.call(dcosines, x, centroids, cosines, inverse, least);
}
Tensor call_sums(const Tensor& x, const Tensor& inverse, const Tensor& nearest, int64_t clusters) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::centroid_sums", "")
                             .typed<decltype(centroid_sums_formula)>();
  return op.call(x, inverse, nearest, clusters);
}

struct Gradient : Differentiable {
  explicit Gradient(double given) : least(given) {}
  const double least;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [cosines, inverse, nearest] = call(inputs[0], inputs[1], least);
    save({inputs[0], inputs[1], cosines, inverse});
    no_gradient_of({inverse, nearest});
    return {cosines, inverse, nearest};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "centroid_cosines has no second derivative");
    const auto kept = saved();
    return {call_backward(gradients[0], kept[0], kept[1], kept[2], kept[3], least), {}};
  }
};

Three with_gradient(const Tensor& x, const Tensor& centroids, double least) {
  if (wants_gradient(x)) {
    const auto found = applied<Gradient>({x, centroids}, least);
    return {found[0], found[1], found[2]};
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(x, centroids, least);
}
Tensor backward_with_gradient(const Tensor& dcosines, const Tensor& x, const Tensor& centroids,
                              const Tensor& cosines, const Tensor& inverse, double least) {
  TORCH_CHECK(!wants_gradient(dcosines, x, cosines), "centroid_cosines has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(dcosines, x, centroids, cosines, inverse, least);
}
Tensor sums_without_gradient(const Tensor& x, const Tensor& inverse, const Tensor& nearest,
                             int64_t clusters) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_sums(x, inverse, nearest, clusters);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "centroid_cosines(Tensor x, Tensor centroids, float least) -> (Tensor cosines, Tensor "
      "inverse, Tensor nearest)");
  m.def(
      "centroid_cosines_backward(Tensor dcosines, Tensor x, Tensor centroids, Tensor cosines, "
      "Tensor inverse, float least) -> Tensor");
  m.def("centroid_sums(Tensor x, Tensor inverse, Tensor nearest, int clusters) -> Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("centroid_cosines", by_formula);
  m.impl("centroid_cosines_backward", centroid_cosines_formula_backward);
  m.impl("centroid_sums", centroid_sums_formula);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("centroid_cosines", on_meta);
  m.impl("centroid_cosines_backward", backward_on_meta);
  m.impl("centroid_sums", sums_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("centroid_cosines", with_gradient);
  m.impl("centroid_cosines_backward", backward_with_gradient);
  m.impl("centroid_sums", sums_without_gradient);
}

// One product for a head: x [B, H, N, E], y [H, E, F] -> [B, H, N, F].
Tensor by_head(const Tensor& x, const Tensor& y) {
  return x.transpose(0, 1).flatten(1, 2).bmm(y).unflatten(1, {x.size(0), -1}).transpose(0, 1);
}

}  // namespace

CentroidCosines centroid_cosines(const Tensor& x, const Tensor& centroids, double least) {
  check(x, centroids);
  const auto [cosines, inverse, nearest] = call(x, centroids, least);
  return {cosines, inverse, nearest};
}
Tensor centroid_sums(const Tensor& x, const Tensor& inverse, const Tensor& nearest,
                     int64_t clusters) {
  TORCH_CHECK(x.dim() == 4 && inverse.sizes() == x.sizes().slice(0, 3) &&
                  nearest.sizes() == inverse.sizes(),
              "centroid_sums: x is ", x.sizes(), " but there are ", inverse.sizes(), " and ",
              nearest.sizes(), " rows");
  return call_sums(x, inverse, nearest, clusters);
}

CentroidCosines centroid_cosines_formula(const Tensor& x, const Tensor& centroids, double least) {
  const auto rows = x.to(wide(x));
  const auto inverse = rows.norm(2, -1).clamp_min(least).reciprocal();
  const auto cosines =
      by_head(rows, centroids.to(rows.scalar_type()).transpose(-2, -1)) * inverse.unsqueeze(-1);
  return {cosines, inverse, cosines.argmax(-1)};
}

// With u = x / |x|: dx = (sum_k g_k mu_k - (sum_k g_k cos_k) u) / |x|, and for rows that are
// shorter than the least norm the first term alone.
Tensor centroid_cosines_formula_backward(const Tensor& dcosines, const Tensor& x,
                                         const Tensor& centroids, const Tensor& cosines,
                                         const Tensor& inverse, double least) {
  const auto each = inverse.unsqueeze(-1);
  const auto largest = at::full({}, least, each.options()).reciprocal();
  const auto along = (dcosines * cosines).sum(-1, true) * (each < largest);
  const auto away = by_head(dcosines, centroids.to(dcosines.scalar_type()));
  return ((away - along * each * x) * each).to(x.scalar_type());
}

// Many short sums, which are then added up: few long ones would leave most of a GPU idle.
Tensor centroid_sums_formula(const Tensor& x, const Tensor& inverse, const Tensor& nearest,
                             int64_t clusters) {
  constexpr int64_t kPiece = 256;
  const auto member =
      (nearest.unsqueeze(-1) == at::arange(clusters, nearest.options())).to(inverse.scalar_type()) *
      inverse.unsqueeze(-1);
  const int64_t missing = (kPiece - x.size(2) % kPiece) % kPiece;
  const auto pieces = [&](const Tensor& rows) {  // [B, H, pieces, kPiece, ..]
    return (missing > 0 ? at::constant_pad_nd(rows, {0, 0, 0, missing}) : rows)
        .unflatten(2, {-1, kPiece});
  };
  return pieces(member)
      .transpose(-2, -1)
      .matmul(pieces(x.to(member.scalar_type())))
      .sum(at::IntArrayRef({0, 2}));
}

}  // namespace longbow
