#include "longbow/ops/level_means.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <optional>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;

at::ScalarType wide(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Rows that follow each other by twos, [B, H, ceil(n / 2), D] in each half; the second may lack its
// last row.
Tensor half(const Tensor& x, int64_t which) {
  return x.slice(2, which, std::nullopt, 2);
}

void check(const Tensor& x, const Maybe& keep, const Tensor& factors, at::IntArrayRef rows) {
  TORCH_CHECK(x.dim() == 4 && (!keep || keep->sizes() == at::IntArrayRef({x.size(0), x.size(2)})),
              "level_means: x is ", x.sizes(), ", keep ",
              keep ? c10::str(keep->sizes()) : std::string("none"));
  int64_t all = 0, n = x.size(2);
  for (const int64_t count : rows) {
    n = (n + 1) / 2;
    TORCH_CHECK(count >= n, "level_means: a level of ", n, " rows has room for ", count);
    all += count;
  }
  TORCH_CHECK(!rows.empty() && factors.dim() == 2 && factors.size(1) == all,
              "level_means: factors are ", factors.sizes(), " for ", all, " rows");
}

Tensor real_rows(const Tensor& x, const Maybe& keep) {
  return keep ? x * keep->to(x.scalar_type()).unsqueeze(1).unsqueeze(-1) : x;
}
Tensor of_level(const Tensor& factors, int64_t first, int64_t n) {
  return factors.narrow(1, first, n).unsqueeze(1).unsqueeze(-1);  // [1 or B, 1, n, 1]
}

Tensor on_any_device(const Tensor& x, const Maybe& keep, const Tensor& factors,
                     at::IntArrayRef rows) {
  check(x, keep, factors, rows);
  const auto out =
      at::empty({x.size(0), factors.size(1), x.size(1), x.size(3)}, x.options()).transpose(1, 2);
  auto sums = real_rows(x, keep);
  int64_t first = 0;
  for (const int64_t count : rows) {
    const auto even = half(sums, 0).to(wide(x), /*non_blocking=*/false, /*copy=*/true),
               odd = half(sums, 1);
    even.narrow(2, 0, odd.size(2)).add_(odd);
    sums = even;
    const int64_t n = sums.size(2);
    auto means = out.narrow(2, first, n);
    at::mul_out(means, sums, of_level(factors, first, n));
    out.narrow(2, first + n, count - n).zero_();
    first += count;
  }
  return out;
}

// What a row has is what its two halves have, and they have their own beside it.
Tensor backward_on_any_device(const Tensor& g, const Tensor& x, const Maybe& keep,
                              const Tensor& factors, at::IntArrayRef rows) {
  std::vector<int64_t> lengths;  // of the levels from 0 on
  lengths.push_back(x.size(2));
  for (size_t l = 0; l < rows.size(); ++l) lengths.push_back((lengths.back() + 1) / 2);
  int64_t first = g.size(2);
  Tensor above;
  for (size_t l = rows.size(); l > 0; --l) {
    first -= rows[l - 1];
    const int64_t n = lengths[l];
    const auto own = g.narrow(2, first, n) * of_level(factors, first, n);
    if (above.defined()) {
      half(own, 0).add_(above);
      const auto odd = half(own, 1);
      odd.add_(above.narrow(2, 0, odd.size(2)));
    }
    above = own;
  }
  const auto dx = at::empty_like(x);
  const auto odd = half(dx, 1);
  half(dx, 0).copy_(above);
  odd.copy_(above.narrow(2, 0, odd.size(2)));
  return real_rows(dx, keep);
}

Tensor on_meta(const Tensor& x, const Maybe& keep, const Tensor& factors, at::IntArrayRef rows) {
  check(x, keep, factors, rows);
  return at::empty({x.size(0), x.size(1), factors.size(1), x.size(3)}, x.options());
}
Tensor backward_on_meta(const Tensor&, const Tensor& x, const Maybe&, const Tensor&,
                        at::IntArrayRef) {
  return at::empty_like(x);
}

Tensor call(const Tensor& x, const Maybe& keep, const Tensor& factors, at::IntArrayRef rows) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::level_means", "")
                             .typed<decltype(on_any_device)>();
  return op.call(x, keep, factors, rows);
}
Tensor call_backward(const Tensor& g, const Tensor& x, const Maybe& keep, const Tensor& factors,
                     at::IntArrayRef rows) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::level_means_backward", "")
                             .typed<decltype(backward_on_any_device)>();
  return op.call(g, x, keep, factors, rows);
}

struct Gradient : Differentiable {
  Gradient(Maybe real, Tensor given, std::vector<int64_t> sizes)
      : keep(std::move(real)), factors(std::move(given)), rows(std::move(sizes)) {}
  const Maybe keep;
  const Tensor factors;
  const std::vector<int64_t> rows;

  TensorVector forward(const TensorVector& inputs) override {
    save({inputs[0]});
    const at::AutoDispatchBelowADInplaceOrView below;
    return {call(inputs[0], keep, factors, rows)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "level_means has no second derivative");
    return {call_backward(gradients[0], saved()[0], keep, factors, rows)};
  }
};

Tensor with_gradient(const Tensor& x, const Maybe& keep, const Tensor& factors,
                     at::IntArrayRef rows) {
  if (wants_gradient(x)) return applied<Gradient>({x}, keep, factors, rows.vec())[0];
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(x, keep, factors, rows);
}
Tensor backward_with_gradient(const Tensor& g, const Tensor& x, const Maybe& keep,
                              const Tensor& factors, at::IntArrayRef rows) {
  TORCH_CHECK(!wants_gradient(g, x), "level_means has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(g, x, keep, factors, rows);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("level_means(Tensor x, Tensor? keep, Tensor factors, int[] rows) -> Tensor");
  m.def(
      "level_means_backward(Tensor g, Tensor x, Tensor? keep, Tensor factors, int[] rows) -> "
      "Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("level_means", on_any_device);
  m.impl("level_means_backward", backward_on_any_device);
}
TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("level_means", on_any_device);
  m.impl("level_means_backward", backward_on_any_device);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("level_means", on_meta);
  m.impl("level_means_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("level_means", with_gradient);
  m.impl("level_means_backward", backward_with_gradient);
}

}  // namespace

Tensor level_means(const Tensor& x, const Tensor& keep, const Tensor& factors,
                   const std::vector<int64_t>& rows) {
  return call(x, keep.defined() ? Maybe(keep) : std::nullopt, factors, rows);
}

}  // namespace longbow
