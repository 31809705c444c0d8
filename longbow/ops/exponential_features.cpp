#include "longbow/ops/exponential_features.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "longbow/kernels/exponential_rows.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/head_parts.h"
#include "longbow/ops/head_rows.h"

namespace longbow {
namespace {

using at::Tensor;

struct Features : Differentiable {
  Features(const Tensor& matrix, double factor, const Tensor& kept, Peak which)
      : omega(matrix), scale(factor), keep(kept), peak(which) {}
  const Tensor omega;  // [1, 1 or H, R, E]
  const double scale;
  const Tensor keep;  // [B, 1, N] or undefined
  const Peak peak;

  template <class T>
  kernels::ExponentialRows<T> task(const Tensor& x, const Tensor& phi, const Tensor& peaks,
                                   const HeadPart& p) const {
    return {.x = rows_of<const T>(x, p.batch, p.head),
            .tokens = x.size(2),
            .width = x.size(3),
            .features = omega.size(2),
            .omega = data_of<const T>(omega, p.batch, p.head),
            .scale = static_cast<T>(scale),
            .keep = data_of<const bool>(keep, p.batch, p.head),
            .phi = rows_of<T>(phi, p.batch, p.head),
            .peaks = data_of<T>(peaks, p.batch, p.head)};
  }
  // body(part) over the tiles of all heads.
  template <class Body>
  void each_tile(const Tensor& x, const Body& body) const {
    const int64_t tiles = kernels::exponential_tiles(x.size(2));
    each_part(x, tiles, tiles, 4 * omega.size(2) * x.size(3), body);
  }

  template <class T>
  TensorVector run(const Tensor& x) const {
    constexpr double kNone = -1e30;
    const auto phi = at::empty({x.size(0), x.size(1), x.size(2), omega.size(2)}, x.options());
    auto peaks = at::empty(x.sizes().slice(0, 3), x.options());
    each_tile(x, [&](const HeadPart& p) {
      kernels::find_exponents(task<T>(x, phi, peaks, p), p.first, p.last);
    });
    auto found = peaks.unsqueeze(-1);
    if (peak == Peak::head) {
      found = found.amax(2, true).clamp_min(kNone);
      peaks = found.squeeze(-1).expand(peaks.sizes()).contiguous();
    }
    each_tile(x, [&](const HeadPart& p) {
      kernels::raise_exponents(task<T>(x, phi, peaks, p), p.first, p.last);
    });
    return {phi, found.clamp_min(kNone)};
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

  TensorVector forward(const TensorVector& inputs) override {
    const auto x = readable_rows(inputs[0]);
    const auto found = x.scalar_type() == at::kDouble ? run<double>(x) : run<float>(x);
    save({inputs[0], found[0]});
    no_gradient_of({found[1]});
    return found;
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "exponential_features has no second derivative");
    const auto kept = saved();
    const auto x = readable_rows(kept[0]), dphi = readable_rows(gradients[0]);
    auto dx = empty_rows(x, x.size(3));
    x.scalar_type() == at::kDouble ? run_backward<double>(x, kept[1], dphi, dx)
                                   : run_backward<float>(x, kept[1], dphi, dx);
    return {dx};
  }
};

}  // namespace

ExponentialFeatures exponential_features(const Tensor& x, const Tensor& omega, double scale,
                                         const Tensor& keep, Peak peak) {
  TORCH_CHECK(x.is_cpu() && x.dim() == 4 && omega.dim() == 3 && omega.size(2) == x.size(3) &&
                  (omega.size(0) == 1 || omega.size(0) == x.size(1)) &&
                  (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble),
              "exponential_features: x is ", x.sizes(), " ", x.scalar_type(), " on ", x.device(),
              ", omega ", omega.sizes());
  const auto found =
      applied<Features>({x}, omega.to(x.scalar_type()).contiguous().unsqueeze(0), scale,
                        keep.defined() ? keep.contiguous().unsqueeze(1) : keep, peak);
  return {found[0], found[1]};
}

}  // namespace longbow
