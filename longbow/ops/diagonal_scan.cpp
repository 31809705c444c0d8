#include "longbow/ops/diagonal_scan.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>

#include "longbow/kernels/diagonal_scan.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"
#include "longbow/ops/in_parallel.h"

namespace longbow {
namespace {

using at::Tensor;

void check(const Tensor& b, const Tensor& rate) {
  TORCH_CHECK(b.dim() == 3 && rate.dim() == 1 && b.size(2) == rate.size(0), "diagonal_scan: b is ",
              b.sizes(), " but rate is ", rate.sizes());
  TORCH_CHECK(b.is_complex() && b.scalar_type() == rate.scalar_type(), "diagonal_scan: b is ",
              b.scalar_type(), " and rate ", rate.scalar_type(),
              ", but both must be complex, of one type");
}

// All tensors as pairs; `others` and `products` [B, P, 2] may be undefined.
template <class T>
void run_kernel(const Tensor& factors, const Tensor& b, Tensor& out, bool reversed,
                const Tensor& others, Tensor& products) {
  const int64_t length = b.size(1), modes = b.size(2), size = kernels::kScanModes,
                blocks = (modes + size - 1) / size;
  in_parallel(b.size(0) * blocks, 4 * length * size, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t lane = task / blocks, mode = task % blocks * size,
                    start = 2 * (lane * length * modes + mode);
      kernels::DiagonalScan<T> scan = {.factors = factors.const_data_ptr<T>() + 2 * mode,
                                       .b = b.const_data_ptr<T>() + start,
                                       .out = out.mutable_data_ptr<T>() + start,
                                       .length = length,
                                       .stride = 2 * modes,
                                       .modes = std::min(size, modes - mode),
                                       .reversed = reversed};
      if (products.defined()) {
        scan.others = others.const_data_ptr<T>() + start;
        scan.products = products.mutable_data_ptr<double>() + 2 * (lane * modes + mode);
      }
      kernels::diagonal_scan(scan);
    }
  });
}

Tensor pairs(const Tensor& x) {
  return at::view_as_real(x.resolve_conj().contiguous());
}

Tensor scanned(const Tensor& b, const Tensor& factor, bool reversed, const Tensor& others = {},
               Tensor products = {}) {
  auto out = at::empty(b.sizes(), b.options()), states = at::view_as_real(out);
  const auto added = pairs(b), factors = pairs(factor);
  added.scalar_type() == at::kFloat
      ? run_kernel<float>(factors, added, states, reversed, others, products)
      : run_kernel<double>(factors, added, states, reversed, others, products);
  return out;
}

Tensor on_cpu(const Tensor& b, const Tensor& rate, bool reversed) {
  check(b, rate);
  return scanned(b, rate.exp(), reversed);
}

Tensor on_meta(const Tensor& b, const Tensor& rate, bool) {
  check(b, rate);
  return at::empty(b.sizes(), b.options());
}

Tensor call(const Tensor& b, const Tensor& rate, bool reversed) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::diagonal_scan", "")
                             .typed<Tensor(const Tensor&, const Tensor&, bool)>();
  return op.call(b, rate, reversed);
}

// What a state adds to the loss it also adds through the states after it: the gradient of b is the
// scan of that of the states in the other direction, and that of the factor exp(rate) counts it for
// the state before.
using Gradients = std::tuple<Tensor, Tensor>;  // of b, of rate

void check(const Tensor& gradient, const Tensor& states, const Tensor& rate) {
  check(states, rate);
  TORCH_CHECK(gradient.sizes() == states.sizes() && gradient.scalar_type() == states.scalar_type(),
              "diagonal_scan_gradients: the gradient is ", gradient.scalar_type(), " ",
              gradient.sizes(), " but the states are ", states.scalar_type(), " ", states.sizes());
}

Gradients gradients_on_cpu(const Tensor& gradient, const Tensor& states, const Tensor& rate,
                           bool reversed) {
  check(gradient, states, rate);
  const auto factor = rate.exp().conj().resolve_conj();
  const auto products =
      at::zeros({states.size(0), states.size(2), 2}, rate.options().dtype(at::kDouble));
  const auto of_b = scanned(gradient, factor, !reversed, pairs(states), products);
  return {of_b, at::view_as_complex(products).sum(0).to(rate.scalar_type()) * factor};
}

Gradients gradients_on_meta(const Tensor& gradient, const Tensor& states, const Tensor& rate,
                            bool) {
  check(gradient, states, rate);
  return {at::empty(gradient.sizes(), gradient.options()), at::empty_like(rate)};
}

Gradients call_gradients(const Tensor& gradient, const Tensor& states, const Tensor& rate,
                         bool reversed) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::diagonal_scan_gradients", "")
                             .typed<Gradients(const Tensor&, const Tensor&, const Tensor&, bool)>();
  return op.call(gradient, states, rate, reversed);
}

// A second derivative goes through the operators of the formula.
Gradients gradients_with_gradient(const Tensor& gradient, const Tensor& states, const Tensor& rate,
                                  bool reversed) {
  if (wants_gradient(gradient, states, rate))
    return diagonal_scan_gradients_formula(gradient, states, rate, reversed);
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_gradients(gradient, states, rate, reversed);
}

struct Gradient : Differentiable {
  explicit Gradient(bool backwards) : reversed(backwards) {}
  const bool reversed;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto states = call(inputs[0], inputs[1], reversed);
    save({states, inputs[1]});
    return {states};
  }
  TensorVector backward(const TensorVector& gradients) override {
    const auto kept = saved();
    const auto [of_b, of_rate] = call_gradients(gradients[0], kept[0], kept[1], reversed);
    return {of_b, of_rate};
  }
};

Tensor with_gradient(const Tensor& b, const Tensor& rate, bool reversed) {
  check(b, rate);
  if (wants_gradient(b, rate)) return applied<Gradient>({b, rate}, reversed)[0];
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(b, rate, reversed);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("diagonal_scan(Tensor b, Tensor rate, bool reversed) -> Tensor");
  m.def(
      "diagonal_scan_gradients(Tensor gradient, Tensor states, Tensor rate, bool reversed) -> "
      "(Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("diagonal_scan", on_cpu);
  m.impl("diagonal_scan_gradients", gradients_on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("diagonal_scan", on_meta);
  m.impl("diagonal_scan_gradients", gradients_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("diagonal_scan", with_gradient);
  m.impl("diagonal_scan_gradients", gradients_with_gradient);
}

// exp(rate (i - j)) for j <= i, else 0: [P, K, K]. No exponent is positive.
Tensor decays_between(const Tensor& rate, int64_t size) {
  const auto i = at::arange(size, rate.options().dtype(at::kLong));
  const auto lag = (i.unsqueeze(1) - i).clamp_min(0);
  return (rate.view({-1, 1, 1}) * lag).exp().tril();
}

}  // namespace

std::tuple<Tensor, Tensor> diagonal_scan_gradients_formula(const Tensor& gradient,
                                                           const Tensor& states, const Tensor& rate,
                                                           bool reversed) {
  check(gradient, states, rate);
  const auto of_b = call(gradient, rate.conj(), !reversed);
  const auto all_but_last = [](const Tensor& x) { return at::slice(x, 1, 0, -1); };
  const auto all_but_first = [](const Tensor& x) { return at::slice(x, 1, 1); };
  const auto before = reversed ? all_but_first(states) : all_but_last(states),
             after = reversed ? all_but_last(of_b) : all_but_first(of_b);
  const auto of_factor = (before.conj() * after).flatten(0, 1).sum(0);
  return {of_b, of_factor * rate.exp().conj()};
}

Tensor diagonal_scan(const Tensor& b, const Tensor& rate, bool reversed) {
  return call(b, rate, reversed);
}

Tensor diagonal_scan_formula(const Tensor& b, const Tensor& rate, bool reversed) {
  if (reversed) return diagonal_scan_formula(b.flip(1), rate).flip(1);
  constexpr int64_t kChunk = 32;
  const int64_t batch = b.size(0), length = b.size(1);
  if (length == 0) return b.clone();
  const int64_t chunk = std::min(length, kChunk), chunks = (length + chunk - 1) / chunk;
  const auto cut = at::constant_pad_nd(b, {0, 0, 0, chunks * chunk - length})
                       .unflatten(1, {chunks, chunk});  // [B, A, K, P]
  const auto inside = decays_between(rate, chunk)
                          .matmul(cut.permute({3, 2, 0, 1}).flatten(2))  // [P, K, B A]
                          .unflatten(2, {batch, chunks})
                          .permute({2, 3, 1, 0});
  const auto joined = [&](const Tensor& x) { return x.flatten(1, 2).narrow(1, 0, length); };
  if (chunks == 1) return joined(inside);
  const auto ends = diagonal_scan_formula(inside.select(2, chunk - 1), rate * chunk);
  const auto before = at::constant_pad_nd(ends.narrow(1, 0, chunks - 1), {0, 0, 1, 0});
  const auto steps = at::arange(1, chunk + 1, rate.options().dtype(at::kLong)).unsqueeze(1);
  return joined(inside + (rate * steps).exp() * before.unsqueeze(2));
}

}  // namespace longbow
