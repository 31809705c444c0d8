#include "longbow/ops/group_softmax.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <optional>

#include "longbow/kernels/group_softmax.h"
#include "longbow/ops/group_softmax_formula.h"
#include "longbow/ops/philox.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;

void on_meta(Tensor&, const Maybe&, int64_t, const Maybe&, at::IntArrayRef, double) {}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "group_softmax_(Tensor(a!) scores, Tensor(b!)? gradient, int group, Tensor? key, int[] "
      "window, float rate) -> ()");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("group_softmax_", group_softmax_by_aten);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("group_softmax_", on_meta);
}

void call(Tensor& scores, const Maybe& gradient, int64_t group, const DroppedRows& dropped) {
  TORCH_CHECK(scores.dim() == 3 && group > 0 && scores.size(2) % group == 0,
              "group_softmax_: scores are ", scores.sizes(), " in groups of ", group);
  TORCH_CHECK(!gradient || gradient->sizes() == scores.sizes(), "group_softmax_: scores are ",
              scores.sizes(), ", the gradient ", gradient->sizes());
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::group_softmax_", "")
                             .typed<decltype(group_softmax_by_aten)>();
  const bool drops = dropped.key.defined() && dropped.rate > 0;
  op.call(scores, gradient, group, drops ? Maybe(dropped.key) : std::nullopt,
          {static_cast<int64_t>(dropped.site), dropped.rows, dropped.row}, dropped.rate);
}

}  // namespace

void group_softmax_by_aten(Tensor& scores, const Maybe& gradient, int64_t group, const Maybe& key,
                           at::IntArrayRef window, double rate) {
  const auto w = scores.unflatten(2, {-1, group}).softmax(-1).flatten(2);
  Tensor dropped;
  if (key) {
    auto noise = at::empty(scores.sizes(), scores.options().dtype(at::kFloat));
    philox_window(*key, static_cast<uint64_t>(window[0]), window[1], scores.size(2), window[2], 0,
                  noise);
    dropped = noise.lt(rate);
  }
  if (gradient) {
    const auto slope = key ? gradient->masked_fill(dropped, 0) : *gradient;
    const auto by_group = [&](const Tensor& x) { return x.unflatten(2, {-1, group}); };
    const auto dw = by_group(slope), weights = by_group(w);
    gradient->copy_((weights * (dw - (weights * dw).sum(-1, true))).flatten(2));
  }
  scores.copy_(key ? w.masked_fill(dropped, 0) : w);
}

void group_softmax_(Tensor& scores, int64_t group, const DroppedRows& dropped) {
  call(scores, std::nullopt, group, dropped);
}
void group_softmax_backward_(Tensor& scores, Tensor& gradient, int64_t group,
                             const DroppedRows& dropped) {
  call(scores, gradient, group, dropped);
}

bool has_group_kernel(const Tensor& like, int64_t group) {
  return like.is_cuda() && like.scalar_type() == at::kFloat && group % 4 == 0 &&
         group <= kernels::kMostGroup;
}

}  // namespace longbow
