#include "longbow/ops/dropout.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"
#include "longbow/ops/in_parallel.h"
#include "longbow/ops/philox_task.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;

void run_kernel(const kernels::Dropout& whole, int64_t bytes) {
  constexpr int64_t kGrain = 1 << 14;
  const int64_t pieces = (whole.count + kGrain - 1) / kGrain;
  in_parallel(pieces, 4 * kGrain, [&](int64_t first, int64_t last) {
    auto part = whole;
    part.first = first * kGrain;
    part.count = std::min(last * kGrain, whole.count) - part.first;
    part.x = static_cast<const char*>(whole.x) + part.first * bytes;
    part.y = static_cast<char*>(whole.y) + part.first * bytes;
    kernels::dropout(part);
  });
}

Tensor on_cpu(const Tensor& given, const Tensor& key, int64_t site, double rate,
              const Maybe& added) {
  const auto type = given.scalar_type();
  if (type == at::kBFloat16 || type == at::kHalf)
    return on_cpu(given.to(at::kFloat), key, site, rate, added).to(type);
  const auto x = given.contiguous();
  auto y = at::empty_like(x);
  run_kernel(dropout_task(x, y, key, site, rate), x.element_size());
  return added ? y.add_(*added) : y;
}

Tensor on_meta(const Tensor& x, const Tensor& key, int64_t, double, const Maybe&) {
  check_key(key, "philox_dropout");
  return at::empty_like(x, {}, at::MemoryFormat::Contiguous);
}

Tensor call(const Tensor& x, const Tensor& key, int64_t site, double rate, const Maybe& added) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::philox_dropout", "")
                             .typed<decltype(on_meta)>();
  return op.call(x, key, site, rate, added);
}

// The gradient drops what the forward pass dropped, so the op is its own backward.
struct Gradient : Differentiable {
  Gradient(int64_t number, double share) : site(number), rate(share) {}
  const int64_t site;
  const double rate;

  TensorVector forward(const TensorVector& inputs) override {
    const auto &x = inputs[0], &key = inputs[1], &added = inputs[2];
    save({key});
    const at::AutoDispatchBelowADInplaceOrView below;
    return {call(x, key, site, rate, added.defined() ? Maybe(added) : std::nullopt)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    const auto& dy = gradients[0];
    return {wants_gradient_of(0) ? call(dy, saved()[0], site, rate, std::nullopt) : Tensor(),
            Tensor(), wants_gradient_of(2) ? dy : Tensor()};
  }
};

Tensor with_gradient(const Tensor& x, const Tensor& key, int64_t site, double rate,
                     const Maybe& added) {
  const auto more = added.value_or(Tensor());
  if (wants_gradient(x, more)) return applied<Gradient>({x, key, more}, site, rate)[0];
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(x, key, site, rate, added);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("philox_dropout(Tensor x, Tensor key, int site, float rate, Tensor? added=None) -> Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("philox_dropout", on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("philox_dropout", on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("philox_dropout", with_gradient);
}

}  // namespace

Tensor philox_dropout(const Tensor& x, const Tensor& key, uint64_t site, double rate) {
  return call(x, key, static_cast<int64_t>(site), rate, std::nullopt);
}

Tensor add_dropped(const Tensor& x, const Tensor& y, const Drop& drop) {
  if (drop.rate == 0) return x + y;
  TORCH_CHECK(x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type(), "add_dropped: x is ",
              x.sizes(), " ", x.scalar_type(), " but y is ", y.sizes(), " ", y.scalar_type());
  return call(y, drop.key, static_cast<int64_t>(drop.site), drop.rate, x);
}

}  // namespace longbow
