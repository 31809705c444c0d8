#include "longbow/ops/feature_product.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <vector>

#include "longbow/ops/block_memory.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/feature_attention.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;

Three on_meta(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& keep,
              const Maybe& query_turns, const Maybe& key_turns, bool causal, at::IntArrayRef maps,
              at::ArrayRef<double> bounds) {
  check_feature_product(q, k, v,
                        feature_product_of(keep, query_turns, key_turns, causal, maps, bounds));
  const auto wide = q.options().dtype(q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const int64_t b = q.size(0), h = q.size(1), n = q.size(2), d = v.size(3);
  return {at::empty({b, h, n, d}, v.options()), at::empty({b, h, n}, wide), at::empty({0}, wide)};
}
Three backward_on_meta(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v,
                       const Tensor&, const Tensor&, const Maybe&, const Maybe&, const Maybe&, bool,
                       at::IntArrayRef, at::ArrayRef<double>) {
  return {at::empty_like(q), at::empty_like(k), at::empty_like(v)};
}

Three on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& keep,
             const Maybe& query_turns, const Maybe& key_turns, bool causal, at::IntArrayRef maps,
             at::ArrayRef<double> bounds) {
  if (causal || !has_feature_tiles(q, k, v))
    return feature_product_by_aten(q, k, v, keep, query_turns, key_turns, causal, maps, bounds);
  return feature_attention(q, k, v,
                           feature_product_of(keep, query_turns, key_turns, causal, maps, bounds));
}
Three backward_on_cpu(const Tensor& g, const Tensor& q, const Tensor& k, const Tensor& v,
                      const Tensor& inverse, const Tensor& sums, const Maybe& keep,
                      const Maybe& query_turns, const Maybe& key_turns, bool causal,
                      at::IntArrayRef maps, at::ArrayRef<double> bounds) {
  if (causal || !has_feature_tiles(q, k, v))
    return feature_product_backward_by_aten(g, q, k, v, inverse, sums, keep, query_turns, key_turns,
                                            causal, maps, bounds);
  const auto [dq, dk, dv] = feature_attention_backward(
      g, q, k, v, inverse, sums,
      feature_product_of(keep, query_turns, key_turns, causal, maps, bounds));
  return {dq, dk, dv};
}

// An option as the dispatcher takes it.
struct Packed {
  Maybe keep, query_turns, key_turns;
  bool causal;
  std::vector<int64_t> maps;
  std::vector<double> bounds;

  explicit Packed(const FeatureProduct& how)
      : keep(maybe(how.keep)),
        query_turns(maybe(how.query_turns)),
        key_turns(maybe(how.key_turns)),
        causal(how.causal),
        maps({static_cast<int64_t>(how.query_map), static_cast<int64_t>(how.key_map)}) {
    if (how.normalised) bounds = {how.added, how.least};
  }
  static Maybe maybe(const Tensor& tensor) { return tensor.defined() ? Maybe(tensor) : Maybe(); }
};

Three call(const Tensor& q, const Tensor& k, const Tensor& v, const Packed& how) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::feature_product", "")
                             .typed<decltype(feature_product_by_aten)>();
  return op.call(q, k, v, how.keep, how.query_turns, how.key_turns, how.causal, how.maps,
                 how.bounds);
}
Three call_backward(const Tensor& g, const Tensor& q, const Tensor& k, const Tensor& v,
                    const Tensor& inverse, const Tensor& sums, const Packed& how) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::feature_product_backward", "")
                             .typed<decltype(feature_product_backward_by_aten)>();
  return op.call(g, q, k, v, inverse, sums, how.keep, how.query_turns, how.key_turns, how.causal,
                 how.maps, how.bounds);
}

struct Gradient : Differentiable {
  explicit Gradient(const FeatureProduct& options) : how(options) {}
  Packed how;  // without tensors that are saved

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto &q = inputs[0], &k = inputs[1], &v = inputs[2];
    const auto [out, inverse, sums] = call(q, k, v, how);
    const bool normalised = !how.bounds.empty();
    save({q, k, v, normalised ? inverse : Tensor(), sums, how.keep.value_or(Tensor()),
          how.query_turns.value_or(Tensor()), how.key_turns.value_or(Tensor())});
    how.keep = how.query_turns = how.key_turns = std::nullopt;
    no_gradient_of(normalised ? TensorVector{inverse, sums} : TensorVector{sums});
    return {out, inverse, sums};
  }
  TensorVector backward(const TensorVector& gradients) override {
    const auto kept = saved();
    const auto& inverse = how.bounds.empty() ? gradients[1] : kept[3];
    auto all = how;
    all.keep = Packed::maybe(kept[5]);
    all.query_turns = Packed::maybe(kept[6]);
    all.key_turns = Packed::maybe(kept[7]);
    const auto [dq, dk, dv] =
        call_backward(gradients[0], kept[0], kept[1], kept[2], inverse, kept[4], all);
    return {dq, dk, dv};
  }
};

Three with_gradient(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& keep,
                    const Maybe& query_turns, const Maybe& key_turns, bool causal,
                    at::IntArrayRef maps, at::ArrayRef<double> bounds) {
  const auto how = feature_product_of(keep, query_turns, key_turns, causal, maps, bounds);
  if (!wants_gradient(q, k, v)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(q, k, v, Packed(how));
  }
  const auto found = applied<Gradient>({q, k, v}, how);
  return {found[0], found[1], found[2]};
}

// A second derivative is that of the formula.
Three backward_with_gradient(const Tensor& g, const Tensor& q, const Tensor& k, const Tensor& v,
                             const Tensor& inverse, const Tensor& sums, const Maybe& keep,
                             const Maybe& query_turns, const Maybe& key_turns, bool causal,
                             at::IntArrayRef maps, at::ArrayRef<double> bounds) {
  if (wants_gradient(g, q, k, v, inverse))
    return feature_product_backward_by_aten(g, q, k, v, inverse, sums, keep, query_turns, key_turns,
                                            causal, maps, bounds);
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(
      g, q, k, v, inverse, sums,
      Packed(feature_product_of(keep, query_turns, key_turns, causal, maps, bounds)));
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "feature_product(Tensor q, Tensor k, Tensor v, Tensor? keep, Tensor? query_turns, "
      "Tensor? key_turns, bool causal, int[] maps, float[] bounds) -> (Tensor out, Tensor inverse, "
      "Tensor "
      "sums)");
  m.def(
      "feature_product_backward(Tensor g, Tensor q, Tensor k, Tensor v, Tensor inverse, "
      "Tensor sums, Tensor? keep, Tensor? query_turns, Tensor? key_turns, bool causal, int[] maps, "
      "float[] bounds) -> (Tensor dq, Tensor dk, Tensor dv)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("feature_product", on_cpu);
  m.impl("feature_product_backward", backward_on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("feature_product", on_meta);
  m.impl("feature_product_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("feature_product", with_gradient);
  m.impl("feature_product_backward", backward_with_gradient);
}

}  // namespace

Tensor feature_product(const Tensor& q, const Tensor& k, const Tensor& v,
                       const FeatureProduct& how) {
  return std::get<0>(call(q, k, v, Packed(how)));
}

WeightedSums feature_product_sums(const Tensor& q, const Tensor& k, const Tensor& v,
                                  FeatureProduct how) {
  how.normalised = false;
  const auto found = call(q, k, v, Packed(how));
  return {std::get<0>(found), std::get<1>(found)};
}

bool has_feature_kernel(const Tensor& q, const Tensor& k, const Tensor& v,
                        const FeatureProduct& how) {
  if (q.is_cpu()) return !how.causal && has_feature_tiles(q, k, v);
  for (const auto& x : {q, k, v})
    if (!x.is_cuda() || x.scalar_type() != at::kBFloat16 || x.numel() == 0) return false;
  constexpr int64_t kMostHeads = 65535;  // of all sequences
  const bool turned = how.query_turns.defined();
  const auto shape = kernels::feature_shape(q.size(3), turned, v.size(3));
  const bool causal_fits = !how.causal || (q.size(2) == k.size(2) && shape.features <= 128);
  return shape.features > 0 && causal_fits && q.size(0) * q.size(1) <= kMostHeads &&
         kernels::feature_memory(shape, turned, how.causal) <= block_memory(q);
}

}  // namespace longbow
