#include "longbow/ops/causal_product.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "longbow/kernels/causal_product.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/in_parallel.h"

namespace longbow {
namespace {

using at::Tensor;

void check(const Tensor& x, const Tensor& y, const Tensor& z) {
  TORCH_CHECK(x.dim() >= 2, "causal_product: x is ", x.sizes(),
              ", but needs [..., length, features]");
  TORCH_CHECK(x.sizes() == y.sizes(), "causal_product: x is ", x.sizes(), " but y is ", y.sizes());
  TORCH_CHECK(
      z.dim() == x.dim() && z.sizes().slice(0, z.dim() - 1) == x.sizes().slice(0, x.dim() - 1),
      "causal_product: x is ", x.sizes(), " but z is ", z.sizes());
  TORCH_CHECK(x.scalar_type() == y.scalar_type() && x.scalar_type() == z.scalar_type(),
              "causal_product: x, y, z are ", x.scalar_type(), ", ", y.scalar_type(), ", ",
              z.scalar_type());
}

template <class T>
void run_kernel(const Tensor& x, const Tensor& y, const Tensor& z, Tensor& out, bool reversed) {
  const int64_t length = x.size(-2), p = x.size(-1), q = z.size(-1);
  const int64_t batch = length * p == 0 ? 0 : x.numel() / (length * p);
  in_parallel(batch, length * p * q / 4, [&](int64_t first, int64_t last) {
    kernels::causal_product(
        kernels::CausalProduct<T>{.x = x.const_data_ptr<T>() + first * length * p,
                                  .y = y.const_data_ptr<T>() + first * length * p,
                                  .z = z.const_data_ptr<T>() + first * length * q,
                                  .out = out.mutable_data_ptr<T>() + first * length * q,
                                  .batch = last - first,
                                  .length = length,
                                  .p = p,
                                  .q = q,
                                  .reversed = reversed});
  });
}

Tensor on_cpu(const Tensor& x, const Tensor& y, const Tensor& z, bool reversed) {
  check(x, y, z);
  const auto type = x.scalar_type();
  if (type == at::kHalf || type == at::kBFloat16)
    return on_cpu(x.to(at::kFloat), y.to(at::kFloat), z.to(at::kFloat), reversed).to(type);
  TORCH_CHECK(type == at::kFloat || type == at::kDouble, "causal_product: no kernel for ", type);
  auto out = at::zeros(z.sizes(), z.options());
  const auto a = x.contiguous(), b = y.contiguous(), c = z.contiguous();
  type == at::kFloat ? run_kernel<float>(a, b, c, out, reversed)
                     : run_kernel<double>(a, b, c, out, reversed);
  return out;
}

Tensor on_any_device(const Tensor& x, const Tensor& y, const Tensor& z, bool reversed) {
  check(x, y, z);
  return causal_product_formula(x, y, z, reversed);
}

Tensor on_meta(const Tensor& x, const Tensor& y, const Tensor& z, bool) {
  check(x, y, z);
  return at::empty_like(z, {}, at::MemoryFormat::Contiguous);
}

Tensor call(const Tensor& x, const Tensor& y, const Tensor& z, bool reversed) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::causal_product", "")
                             .typed<Tensor(const Tensor&, const Tensor&, const Tensor&, bool)>();
  return op.call(x, y, z, reversed);
}

// Each gradient is the same product with its arguments exchanged, so the op is its own backward.
struct Gradient : Differentiable {
  explicit Gradient(bool backwards) : reversed(backwards) {}
  const bool reversed;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    save(inputs);
    return {call(inputs[0], inputs[1], inputs[2], reversed)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    const auto kept = saved();
    const auto &x = kept[0], &y = kept[1], &z = kept[2], &g = gradients[0];
    return {call(g, z, y, reversed), call(z, g, x, !reversed), call(y, x, g, !reversed)};
  }
};

Tensor with_gradient(const Tensor& x, const Tensor& y, const Tensor& z, bool reversed) {
  return applied<Gradient>({x, y, z}, reversed)[0];
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("causal_product(Tensor x, Tensor y, Tensor z, bool reversed) -> Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("causal_product", on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("causal_product", on_any_device);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("causal_product", on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("causal_product", with_gradient);
}

}  // namespace

Tensor causal_product(const Tensor& x, const Tensor& y, const Tensor& z, bool reversed) {
  return call(x, y, z, reversed);
}

Tensor causal_product_formula(const Tensor& x, const Tensor& y, const Tensor& z, bool reversed) {
  if (reversed) return causal_product_formula(x.flip(-2), y.flip(-2), z.flip(-2)).flip(-2);
  constexpr int64_t kChunk = 64;
  const int64_t length = x.size(-2), chunks = (length + kChunk - 1) / kChunk;
  const auto type = x.scalar_type();
  const auto wide = type == at::kDouble ? at::kDouble : at::kFloat;
  auto cut = [&](const Tensor& t) {  // [..., chunks, kChunk, features]
    auto padded = at::constant_pad_nd(t.to(wide), {0, 0, 0, chunks * kChunk - length});
    return padded.unflatten(-2, {chunks, kChunk});
  };
  const auto a = cut(x), b = cut(y), c = cut(z);
  const auto sums = b.transpose(-2, -1).matmul(c);  // [..., chunks, p, q]
  // A later chunk takes no part, not even by rounding, as it would in sums.cumsum(-3) - sums.
  const auto before =
      at::constant_pad_nd(sums, {0, 0, 0, 0, 1, 0}).narrow(-3, 0, chunks).cumsum(-3);
  const auto inside = a.matmul(b.transpose(-2, -1)).tril().matmul(c);
  return (inside + a.matmul(before)).flatten(-3, -2).narrow(-2, 0, length).to(type);
}

Tensor grown_causal_product(const Tensor& x, const Tensor& y, const Tensor& z, Tensor& sums) {
  if (y.size(-2) == 1) {
    sums = at::addcmul(sums, y.transpose(-2, -1), z);
    return x.matmul(sums);
  }
  const auto out = x.matmul(sums) + causal_product(x, y, z);
  sums = sums + y.transpose(-2, -1).matmul(z);
  return out;
}

}  // namespace longbow
