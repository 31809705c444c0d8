#include "longbow/ops/exponential_features.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/kernels/exponential_features.h"
#include "longbow/kernels/exponential_rows.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"
#include "longbow/ops/head_parts.h"
#include "longbow/ops/head_rows.h"

namespace longbow {
namespace {

using at::Tensor;

using Two = std::tuple<Tensor, Tensor>;
using Maybe = std::optional<Tensor>;

struct Features {
  Tensor omega;  // [1, 1 or H, R, E], or half as many rows
  bool mirrored;
  double scale;
  Tensor keep;  // [B, 1, N] or undefined

  Features(const Tensor& x, const Tensor& matrix, bool twice, double factor, const Maybe& kept)
      : omega(matrix.to(x.scalar_type()).contiguous().unsqueeze(0)),
        mirrored(twice),
        scale(factor) {
    if (kept) keep = kept->contiguous().unsqueeze(1);
  }

  template <class T>
  kernels::ExponentialRows<T> task(const Tensor& x, const Tensor& phi, const Tensor& peaks,
                                   const HeadPart& p) const {
    return {.x = rows_of<const T>(x, p.batch, p.head),
            .tokens = x.size(2),
            .width = x.size(3),
            .features = count(),
            .omega = data_of<const T>(omega, p.batch, p.head),
            .mirrored = mirrored,
            .scale = static_cast<T>(scale),
            .keep = data_of<const bool>(keep, p.batch, p.head),
            .phi = rows_of<T>(phi, p.batch, p.head),
            .peaks = data_of<T>(peaks, p.batch, p.head)};
  }
  int64_t count() const { return omega.size(2) * (mirrored ? 2 : 1); }
  // body(part) over the tiles of all heads.
  template <class Body>
  void each_tile(const Tensor& x, const Body& body) const {
    const int64_t tiles = kernels::exponential_tiles(x.size(2));
    each_part(x, tiles, tiles, 4 * omega.size(2) * x.size(3), body);
  }

  template <class T>
  Two run(const Tensor& x, bool by_head) const {
    constexpr double kNone = -1e30;
    const auto phi = at::empty({x.size(0), x.size(1), x.size(2), count()}, x.options());
    auto peaks = at::empty(x.sizes().slice(0, 3), x.options());
    each_tile(x, [&](const HeadPart& p) {
      const auto part = task<T>(x, phi, peaks, p);
      by_head ? kernels::find_exponents(part, p.first, p.last)
              : kernels::exponential_rows(part, p.first, p.last);
    });
    if (!by_head) return {phi, peaks.unsqueeze(-1).clamp_min(kNone)};
    if (x.size(2) == 0) return {phi, at::full({x.size(0), x.size(1), 1, 1}, kNone, x.options())};
    const auto most = peaks.amax(2, true).clamp_min(kNone);
    peaks = most.expand(peaks.sizes()).contiguous();
    each_tile(x, [&](const HeadPart& p) {
      kernels::raise_exponents(task<T>(x, phi, peaks, p), p.first, p.last);
    });
    return {phi, most.unsqueeze(-1)};
  }
  template <class T>
  void run_backward(const Tensor& x, const Tensor& phi, const Tensor& dphi, Tensor& dx) const {
    each_tile(x, [&](const HeadPart& p) {
      kernels::exponential_rows_backward<T>({.past = task<T>(x, phi, {}, p),
                                             .dphi = rows_of<const T>(dphi, p.batch, p.head),
                                             .dx = rows_of<T>(dx, p.batch, p.head)},
                                            p.first, p.last);
    });
  }
};

Two on_cpu(const Tensor& given, const Tensor& omega, bool mirrored, double scale, const Maybe& keep,
           bool by_head) {
  const auto x = readable_rows(given);
  const Features features(x, omega, mirrored, scale, keep);
  return x.scalar_type() == at::kDouble ? features.run<double>(x, by_head)
                                        : features.run<float>(x, by_head);
}
Tensor backward_on_cpu(const Tensor& given_dphi, const Tensor& given, const Tensor& omega,
                       bool mirrored, double scale, const Tensor& phi) {
  const auto x = readable_rows(given), dphi = readable_rows(given_dphi);
  const Features features(x, omega, mirrored, scale, {});
  auto dx = empty_rows(x, x.size(3));
  x.scalar_type() == at::kDouble ? features.run_backward<double>(x, phi, dphi, dx)
                                 : features.run_backward<float>(x, phi, dphi, dx);
  return dx;
}

Two call(const Tensor& x, const Tensor& omega, bool mirrored, double scale, const Tensor& keep,
         Peak peak) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::exponential_features", "")
                             .typed<decltype(on_cpu)>();
  return op.call(x, omega, mirrored, scale, keep.defined() ? Maybe(keep) : Maybe(),
                 peak == Peak::head);
}

struct Gradient : Differentiable {
  Gradient(const Tensor& matrix, bool twice, double factor, const Tensor& kept, Peak which)
      : omega(matrix), keep(kept), mirrored(twice), scale(factor), peak(which) {}
  Tensor omega, keep;  // until the forward pass has them
  const bool mirrored;
  const double scale;
  const Peak peak;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [phi, found] = call(inputs[0], omega, mirrored, scale, keep, peak);
    save({inputs[0], phi, omega});
    omega = keep = Tensor();
    no_gradient_of({found});
    return {phi, found};
  }
  TensorVector backward(const TensorVector& gradients) override {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("longbow::exponential_features_backward", "")
                               .typed<decltype(backward_on_cpu)>();
    TORCH_CHECK(!at::GradMode::is_enabled(), "exponential_features has no second derivative");
    const auto kept = saved();
    return {op.call(gradients[0], kept[0], kept[2], mirrored, scale, kept[1])};
  }
};

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "exponential_features(Tensor x, Tensor omega, bool mirrored, float scale, Tensor? keep, bool "
      "by_head) -> (Tensor phi, Tensor peak)");
  m.def(
      "exponential_features_backward(Tensor dphi, Tensor x, Tensor omega, bool mirrored, float "
      "scale, Tensor phi) -> Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("exponential_features", on_cpu);
  m.impl("exponential_features_backward", backward_on_cpu);
}

}  // namespace

ExponentialFeatures exponential_features(const Tensor& x, const Tensor& omega, double scale,
                                         const Tensor& keep, Peak peak, bool mirrored) {
  TORCH_CHECK(x.dim() == 4 && omega.dim() == 3 && omega.size(2) == x.size(3) &&
                  (omega.size(0) == 1 || omega.size(0) == x.size(1)) &&
                  has_exponential_kernel(x, peak),
              "exponential_features: x is ", x.sizes(), " ", x.scalar_type(), " on ", x.device(),
              ", omega ", omega.sizes());
  TORCH_CHECK(!keep.defined() || (keep.scalar_type() == at::kBool &&
                                  keep.sizes() == at::IntArrayRef({x.size(0), x.size(2)})),
              "exponential_features: keep is ", keep.scalar_type(), " ", keep.sizes(),
              ", but x is ", x.sizes());
  if (x.is_cuda()) {
    const auto [phi, found] = call(x, omega, mirrored, scale, keep, peak);
    return {phi, found};
  }
  const auto found = applied<Gradient>({x}, omega, mirrored, scale, keep, peak);
  return {found[0], found[1]};
}

bool has_exponential_kernel(const Tensor& x, Peak peak) {
  const auto type = x.scalar_type();
  if (x.is_cpu()) return type == at::kFloat || type == at::kDouble;
  return x.is_cuda() && peak == Peak::token && (type == at::kFloat || type == at::kBFloat16) &&
         x.dim() == 4 && x.numel() > 0 && x.size(3) <= kernels::kMostExponentialWidth &&
         !wants_gradient(x);
}

}  // namespace longbow
