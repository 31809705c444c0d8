#include "longbow/ops/dropout.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"
#include "longbow/ops/in_parallel.h"
#include "longbow/ops/philox_task.h"

namespace longbow {
namespace {

using at::Tensor;

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

Tensor on_cpu(const Tensor& given, const Tensor& key, int64_t site, double rate) {
  const auto type = given.scalar_type();
  if (type == at::kBFloat16 || type == at::kHalf)
    return on_cpu(given.to(at::kFloat), key, site, rate).to(type);
  const auto x = given.contiguous();
  auto y = at::empty_like(x);
  run_kernel(dropout_task(x, y, key, site, rate), x.element_size());
  return y;
}

Tensor on_meta(const Tensor& x, const Tensor& key, int64_t, double) {
  check_key(key, "philox_dropout");
  return at::empty_like(x, {}, at::MemoryFormat::Contiguous);
}

Tensor call(const Tensor& x, const Tensor& key, int64_t site, double rate) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::philox_dropout", "")
                             .typed<Tensor(const Tensor&, const Tensor&, int64_t, double)>();
  return op.call(x, key, site, rate);
}

// The gradient drops what the forward pass dropped, so the op is its own backward.
struct Gradient : Differentiable {
  Gradient(int64_t number, double share) : site(number), rate(share) {}
  const int64_t site;
  const double rate;

  TensorVector forward(const TensorVector& inputs) override {
    const auto &x = inputs[0], &key = inputs[1];
    save({key});
    const at::AutoDispatchBelowADInplaceOrView below;
    return {call(x, key, site, rate)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    return {call(gradients[0], saved()[0], site, rate), Tensor()};
  }
};

Tensor with_gradient(const Tensor& x, const Tensor& key, int64_t site, double rate) {
  if (wants_gradient(x)) return applied<Gradient>({x, key}, site, rate)[0];
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(x, key, site, rate);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("philox_dropout(Tensor x, Tensor key, int site, float rate) -> Tensor");
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
  return call(x, key, static_cast<int64_t>(site), rate);
}

}  // namespace longbow
