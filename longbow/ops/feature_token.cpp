#include "longbow/ops/feature_token.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/kernels/feature_token.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

void check(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& sums,
           const Tensor& key_peak, const Tensor& peak) {
  TORCH_CHECK(q.dim() == 4 && q.size(2) == 1 && k.sizes() == q.sizes() && v.dim() == 4 &&
                  v.sizes().slice(0, 3) == q.sizes().slice(0, 3),
              "feature_token: q is ", q.sizes(), ", k ", k.sizes(), ", v ", v.sizes());
  TORCH_CHECK(sums.sizes() == at::IntArrayRef({q.size(0), q.size(1), q.size(3), v.size(3) + 1}),
              "feature_token: sums is ", sums.sizes(), ", but q is ", q.sizes(), " and v ",
              v.sizes());
  const auto heads = q.sizes().slice(0, 2);
  TORCH_CHECK(peak.defined() == key_peak.defined() &&
                  (!peak.defined() ||
                   (peak.sizes() == heads && key_peak.dim() == 4 &&
                    key_peak.sizes().slice(0, 2) == heads && key_peak.numel() == peak.numel())),
              "feature_token: key_peak is ", key_peak.sizes(), ", peak ", peak.sizes());
}

Three by_aten(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& sums,
              const Maybe& key_peak, const Maybe& peak) {
  const auto found =
      feature_token_formula(q, k, v, sums, key_peak.value_or(Tensor()), peak.value_or(Tensor()));
  return {found.out, found.sums, peak ? found.peak : at::empty({0}, sums.options())};
}

Three on_meta(const Tensor& q, const Tensor&, const Tensor&, const Tensor& sums, const Maybe&,
              const Maybe& peak) {
  return {at::empty({q.size(0), q.size(1), 1, sums.size(3)}, sums.options()), at::empty_like(sums),
          peak ? at::empty_like(*peak) : at::empty({0}, sums.options())};
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "feature_token(Tensor q, Tensor k, Tensor v, Tensor sums, Tensor? key_peak, Tensor? peak) "
      "-> (Tensor out, Tensor after, Tensor most)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("feature_token", by_aten);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("feature_token", on_meta);
}

}  // namespace

FeatureToken feature_token_formula(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const Tensor& sums, const Tensor& key_peak, const Tensor& peak) {
  const auto values = at::constant_pad_nd(v.to(sums.scalar_type()), {0, 1}, 1);
  if (!peak.defined()) {
    const auto after = sums + k.transpose(-2, -1) * values;
    return {q.matmul(after), after, peak};
  }
  const auto each = [](const Tensor& t) { return t.unsqueeze(-1).unsqueeze(-1); };
  const auto own = key_peak.reshape(peak.sizes()), most = at::maximum(peak, own);
  const auto after =
      sums * each((peak - most).exp()) + k.transpose(-2, -1) * (values * each((own - most).exp()));
  return {q.matmul(after), after, most};
}

FeatureToken feature_token(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& sums,
                           const Tensor& key_peak, const Tensor& peak) {
  check(q, k, v, sums, key_peak, peak);
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::feature_token", "")
                             .typed<decltype(by_aten)>();
  const bool relative = peak.defined();
  const auto [out, after, most] = op.call(q, k, v, sums, relative ? Maybe(key_peak) : Maybe(),
                                          relative ? Maybe(peak) : Maybe());
  return {out, after, relative ? most : Tensor()};
}

bool has_feature_token_kernel(const Tensor& q, const Tensor& k, const Tensor& v,
                              const Tensor& sums) {
  return q.is_cuda() && q.dim() == 4 && q.size(2) == 1 && q.numel() > 0 &&
         q.scalar_type() == at::kFloat && k.scalar_type() == at::kFloat &&
         sums.scalar_type() == at::kFloat &&
         (v.scalar_type() == at::kBFloat16 || v.scalar_type() == at::kFloat) &&
         q.size(3) <= kernels::kMostTokenFeatures && v.size(3) <= kernels::kMostTokenWidth &&
         !wants_gradient(q, k, v, sums);
}

}  // namespace longbow
