#include "longbow/ops/random_product.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "longbow/ops/block_memory.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/feature_attention.h"
#include "longbow/ops/gradient.h"
#include "longbow/ops/random_product_task.h"

namespace longbow {

using at::Tensor;

RandomProduct random_product_of(const Tensor& omega, const Maybe& sigma, const Maybe& keep,
                                const Maybe& least, int64_t map, bool causal, double scale) {
  return {.map = static_cast<RandomMap>(map),
          .omega = omega,
          .sigma = sigma.value_or(Tensor()),
          .scale = scale,
          .keep = keep.value_or(Tensor()),
          .least = least.value_or(Tensor()),
          .causal = causal};
}

RandomForward random_product_by_aten(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& omega, const Maybe& sigma, const Maybe& keep,
                                     const Maybe& least, int64_t map, bool causal, double scale) {
  return {random_product_formula(q, k, v,
                                 random_product_of(omega, sigma, keep, least, map, causal, scale)),
          at::empty({0}, q.options())};
}

RandomBackward random_product_backward_by_aten(const Tensor& g, const Tensor& q, const Tensor& k,
                                               const Tensor& v, const Tensor& omega,
                                               const Maybe& sigma, const Maybe& keep,
                                               const Maybe& least, const Tensor&, int64_t map,
                                               bool causal, double scale) {
  const auto [dq, dk, dv, dsigma] = random_product_gradient(
      g, q, k, v, random_product_of(omega, sigma, keep, least, map, causal, scale));
  return {dq, dk, dv, dsigma};
}

namespace {

bool has_tiles(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& least, int64_t map,
               bool causal) {
  return has_feature_tiles(q, k, v) && !causal && !least &&
         static_cast<RandomMap>(map) == RandomMap::exponential;
}
RandomForward on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& omega,
                     const Maybe& sigma, const Maybe& keep, const Maybe& least, int64_t map,
                     bool causal, double scale) {
  if (!has_tiles(q, k, v, least, map, causal))
    return random_product_by_aten(q, k, v, omega, sigma, keep, least, map, causal, scale);
  return random_attention(q, k, v,
                          random_product_of(omega, sigma, keep, least, map, causal, scale));
}
RandomBackward backward_on_cpu(const Tensor& g, const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& omega, const Maybe& sigma, const Maybe& keep,
                               const Maybe& least, const Tensor& kept, int64_t map, bool causal,
                               double scale) {
  if (!has_tiles(q, k, v, least, map, causal))
    return random_product_backward_by_aten(g, q, k, v, omega, sigma, keep, least, kept, map, causal,
                                           scale);
  const auto [dq, dk, dv] = random_attention_backward(
      g, q, k, v, kept, random_product_of(omega, sigma, keep, least, map, causal, scale));
  return {dq, dk, dv, at::empty({0}, g.options())};
}

RandomForward on_meta(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& omega,
                      const Maybe& sigma, const Maybe& keep, const Maybe& least, int64_t map,
                      bool causal, double scale) {
  check_random_product(q, k, v, random_product_of(omega, sigma, keep, least, map, causal, scale));
  return {at::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, v.options()),
          at::empty({0}, q.options())};
}
RandomBackward backward_on_meta(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v,
                                const Tensor&, const Maybe& sigma, const Maybe&, const Maybe&,
                                const Tensor&, int64_t, bool, double) {
  return {at::empty_like(q), at::empty_like(k), at::empty_like(v),
          sigma ? at::empty_like(*sigma) : at::empty({0}, q.options())};
}

Maybe maybe(const Tensor& tensor) {
  return tensor.defined() ? Maybe(tensor) : Maybe();
}

RandomForward call(const Tensor& q, const Tensor& k, const Tensor& v, const RandomProduct& how) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::random_product", "")
                             .typed<decltype(random_product_by_aten)>();
  return op.call(q, k, v, how.omega, maybe(how.sigma), maybe(how.keep), maybe(how.least),
                 static_cast<int64_t>(how.map), how.causal, how.scale);
}
RandomBackward call_backward(const Tensor& g, const TensorVector& inputs, const RandomProduct& how,
                             const Tensor& kept) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::random_product_backward", "")
                             .typed<decltype(random_product_backward_by_aten)>();
  return op.call(g, inputs[0], inputs[1], inputs[2], how.omega, maybe(inputs[3]), maybe(how.keep),
                 maybe(how.least), kept, static_cast<int64_t>(how.map), how.causal, how.scale);
}

struct Gradient : Differentiable {
  explicit Gradient(const RandomProduct& options) : how(options) { how.sigma = Tensor(); }
  RandomProduct how;  // without sigma, which is an input, and tensors that are saved

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto all = how;
    all.sigma = inputs[3];
    const auto [out, kept] = call(inputs[0], inputs[1], inputs[2], all);
    save({inputs[0], inputs[1], inputs[2], inputs[3], kept, how.omega, how.keep, how.least});
    how.omega = how.keep = how.least = Tensor();
    no_gradient_of({kept});
    return {out, kept};
  }
  TensorVector backward(const TensorVector& gradients) override {
    const auto kept = saved();
    auto all = how;
    all.omega = kept[5], all.keep = kept[6], all.least = kept[7];
    const auto [dq, dk, dv, dsigma] =
        call_backward(gradients[0], {kept[0], kept[1], kept[2], kept[3]}, all, kept[4]);
    return {dq, dk, dv, kept[3].defined() ? dsigma : Tensor()};
  }
};

RandomForward with_gradient(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& omega,
                            const Maybe& sigma, const Maybe& keep, const Maybe& least, int64_t map,
                            bool causal, double scale) {
  const auto how = random_product_of(omega, sigma, keep, least, map, causal, scale);
  if (!wants_gradient(q, k, v, how.sigma)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(q, k, v, how);
  }
  const auto found = applied<Gradient>({q, k, v, how.sigma}, how);
  return {found[0], found[1]};
}

RandomBackward backward_with_gradient(const Tensor& g, const Tensor& q, const Tensor& k,
                                      const Tensor& v, const Tensor& omega, const Maybe& sigma,
                                      const Maybe& keep, const Maybe& least, const Tensor& kept,
                                      int64_t map, bool causal, double scale) {
  const auto how = random_product_of(omega, sigma, keep, least, map, causal, scale);
  if (wants_gradient(g, q, k, v, how.sigma))
    return random_product_backward_by_aten(g, q, k, v, omega, sigma, keep, least, kept, map, causal,
                                           scale);
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(g, {q, k, v, how.sigma}, how, kept);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "random_product(Tensor q, Tensor k, Tensor v, Tensor omega, Tensor? sigma, Tensor? keep, "
      "Tensor? least, int map, bool causal, float scale) -> (Tensor out, Tensor kept)");
  m.def(
      "random_product_backward(Tensor g, Tensor q, Tensor k, Tensor v, Tensor omega, "
      "Tensor? sigma, Tensor? keep, Tensor? least, Tensor kept, int map, bool causal, float scale) "
      "-> "
      "(Tensor dq, Tensor dk, Tensor dv, Tensor dsigma)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("random_product", on_cpu);
  m.impl("random_product_backward", backward_on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("random_product", on_meta);
  m.impl("random_product_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("random_product", with_gradient);
  m.impl("random_product_backward", backward_with_gradient);
}

}  // namespace

Tensor random_product(const Tensor& q, const Tensor& k, const Tensor& v, const RandomProduct& how) {
  return std::get<0>(call(q, k, v, how));
}

bool has_random_kernel(const Tensor& q, const Tensor& k, const Tensor& v, RandomMap map,
                       int64_t projections, bool causal) {
  if (q.is_cpu()) return !causal && map == RandomMap::exponential && has_feature_tiles(q, k, v);
  for (const auto& x : {q, k, v})
    if (!x.is_cuda() || x.scalar_type() != at::kBFloat16 || x.numel() == 0) return false;
  constexpr int64_t kMostHeads = 65535;  // of all sequences
  const bool causal_fits =
      !causal || (q.size(2) == k.size(2) && (map == RandomMap::exponential || projections <= 64));
  const auto shape = kernels::random_shape(map, projections, q.size(3), v.size(3));
  const int64_t memory = causal && map == RandomMap::trigonometric ? kernels::kCausalRandomMemory
                                                                   : kernels::random_memory(shape);
  return shape.projections > 0 && causal_fits && q.size(0) * q.size(1) <= kMostHeads &&
         memory <= block_memory(q);
}

}  // namespace longbow
