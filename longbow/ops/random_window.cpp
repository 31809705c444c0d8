#include "longbow/ops/random_window.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include "longbow/kernels/random_window.h"
#include "longbow/ops/block_memory.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"
#include "longbow/ops/random_window_task.h"

namespace longbow {

using at::Tensor;

RandomWindow random_window_of(const Tensor& omega, const std::optional<Tensor>& keep, bool mirrored,
                              double scale, int64_t back, int64_t ahead, bool causal) {
  return {.omega = omega,
          .mirrored = mirrored,
          .scale = scale,
          .keep = keep.value_or(Tensor()),
          .back = back,
          .ahead = ahead,
          .causal = causal};
}

namespace {

using Maybe = std::optional<Tensor>;

WindowForward on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& omega,
                     const Maybe& keep, bool mirrored, double scale, int64_t back, int64_t ahead,
                     bool causal) {
  return {random_window_formula(
              q, k, v, random_window_of(omega, keep, mirrored, scale, back, ahead, causal)),
          at::empty({0}, q.options())};
}
WindowBackward backward_on_cpu(const Tensor& g, const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& omega, const Maybe& keep, const Tensor&, bool mirrored,
                               double scale, int64_t back, int64_t ahead, bool causal) {
  const auto [dq, dk, dv] = random_window_gradient(
      g, q, k, v, random_window_of(omega, keep, mirrored, scale, back, ahead, causal));
  return {dq, dk, dv};
}

WindowForward on_meta(const Tensor&, const Tensor&, const Tensor& v, const Tensor&, const Maybe&,
                      bool, double, int64_t, int64_t, bool) {
  return {at::empty_like(v), at::empty({0}, v.options())};
}
WindowBackward backward_on_meta(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v,
                                const Tensor&, const Maybe&, const Tensor&, bool, double, int64_t,
                                int64_t, bool) {
  return {at::empty_like(q), at::empty_like(k), at::empty_like(v)};
}

Maybe maybe(const Tensor& tensor) {
  return tensor.defined() ? Maybe(tensor) : Maybe();
}
WindowForward call(const Tensor& q, const Tensor& k, const Tensor& v, const RandomWindow& how) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::random_window", "")
                             .typed<decltype(on_cpu)>();
  return op.call(q, k, v, how.omega, maybe(how.keep), how.mirrored, how.scale, how.back, how.ahead,
                 how.causal);
}
WindowBackward call_backward(const Tensor& g, const Tensor& q, const Tensor& k, const Tensor& v,
                             const RandomWindow& how, const Tensor& kept) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::random_window_backward", "")
                             .typed<decltype(backward_on_cpu)>();
  return op.call(g, q, k, v, how.omega, maybe(how.keep), kept, how.mirrored, how.scale, how.back,
                 how.ahead, how.causal);
}

constexpr auto kOnce = "random_window has no second derivative";

struct Gradient : Differentiable {
  explicit Gradient(const RandomWindow& options) : how(options) {}
  RandomWindow how;  // without tensors that are saved

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, kept] = call(inputs[0], inputs[1], inputs[2], how);
    save({inputs[0], inputs[1], inputs[2], kept, how.omega, how.keep});
    how.omega = how.keep = Tensor();
    no_gradient_of({kept});
    return {out, kept};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), kOnce);
    const auto past = saved();
    auto all = how;
    all.omega = past[4], all.keep = past[5];
    const auto [dq, dk, dv] = call_backward(gradients[0], past[0], past[1], past[2], all, past[3]);
    return {dq, dk, dv};
  }
};

WindowForward with_gradient(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& omega,
                            const Maybe& keep, bool mirrored, double scale, int64_t back,
                            int64_t ahead, bool causal) {
  const auto how = random_window_of(omega, keep, mirrored, scale, back, ahead, causal);
  if (!wants_gradient(q, k, v)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(q, k, v, how);
  }
  const auto found = applied<Gradient>({q, k, v}, how);
  return {found[0], found[1]};
}
WindowBackward backward_with_gradient(const Tensor& g, const Tensor& q, const Tensor& k,
                                      const Tensor& v, const Tensor& omega, const Maybe& keep,
                                      const Tensor& kept, bool mirrored, double scale, int64_t back,
                                      int64_t ahead, bool causal) {
  TORCH_CHECK(!wants_gradient(g, q, k, v), kOnce);
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(g, q, k, v,
                       random_window_of(omega, keep, mirrored, scale, back, ahead, causal), kept);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "random_window(Tensor q, Tensor k, Tensor v, Tensor omega, Tensor? keep, bool mirrored, "
      "float scale, int back, int ahead, bool causal) -> (Tensor out, Tensor kept)");
  m.def(
      "random_window_backward(Tensor g, Tensor q, Tensor k, Tensor v, Tensor omega, Tensor? keep, "
      "Tensor kept, bool mirrored, float scale, int back, int ahead, bool causal) -> "
      "(Tensor dq, Tensor dk, Tensor dv)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("random_window", on_cpu);
  m.impl("random_window_backward", backward_on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("random_window", on_meta);
  m.impl("random_window_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("random_window", with_gradient);
  m.impl("random_window_backward", backward_with_gradient);
}

}  // namespace

Tensor random_window(const Tensor& q, const Tensor& k, const Tensor& v, const RandomWindow& how) {
  check_random_window(q, k, v, how);
  return std::get<0>(call(q, k, v, how));
}

bool has_random_window_kernel(const Tensor& q, const Tensor& k, const Tensor& v,
                              const RandomWindow& how) {
  constexpr int64_t kMostHeads = 65535, kSide = kernels::RandomWindow::side;
  for (const auto& x : {q, k, v})
    if (!x.is_cuda() || x.scalar_type() != at::kBFloat16 || x.numel() == 0) return false;
  const auto map = how.mirrored ? kernels::RandomMap::mirrored : kernels::RandomMap::exponential;
  return k.sizes() == q.sizes() && how.back <= kSide && how.ahead <= kSide &&
         q.size(0) * q.size(1) <= kMostHeads && kernels::RandomWindow::memory <= block_memory(q) &&
         kernels::random_window_shape(map, how.omega.size(1), q.size(3), v.size(3)).projections > 0;
}

}  // namespace longbow
