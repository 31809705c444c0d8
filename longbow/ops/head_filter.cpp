#include "longbow/ops/head_filter.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <array>
#include <tuple>

#include "longbow/kernels/token_filter.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"
#include "longbow/ops/head_parts.h"
#include "longbow/ops/head_rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;

// As the heads' filters of an image [B, H, N, D]: [H, 1, taps, 1].
Tensor of_image(const Tensor& filter, at::ScalarType type) {
  return filter.to(type).unsqueeze(1).unsqueeze(-1);
}

template <class T>
kernels::TokenFilter<T> task_of(const Tensor& x, const Tensor& filter, const Tensor& out,
                                const HeadPart& p) {
  return {.x = rows_of<const T>(x, p.batch, p.head),
          .filter = filter.const_data_ptr<T>() + p.head * filter.size(1),
          .tokens = x.size(2),
          .width = x.size(3),
          .taps = filter.size(1),
          .out = rows_of<T>(out, p.batch, p.head)};
}

template <class T>
void run(const Tensor& x, const Tensor& filter, const Tensor& out) {
  const int64_t tiles = kernels::filter_tiles(x.size(2));
  each_part(x, tiles, tiles, 4 * filter.size(1) * x.size(3), [&](const HeadPart& p) {
    kernels::token_filter(task_of<T>(x, filter, out, p), p.first, p.last);
  });
}

Tensor on_cpu(const Tensor& given_x, const Tensor& given_filter) {
  if (given_x.numel() == 0) return at::empty_like(given_x);
  const auto x = readable_rows(given_x);
  const auto filter = given_filter.to(x.scalar_type()).contiguous(), out = empty_rows(x, x.size(3));
  x.scalar_type() == at::kDouble ? run<double>(x, filter, out) : run<float>(x, filter, out);
  return out.to(given_x.scalar_type());
}

// Parts of heads add to filters of their own, which are then summed.
template <class T>
Tensor run_backward(const Tensor& dout, const Tensor& x, const Tensor& filter, const Tensor& dx) {
  const int64_t tiles = kernels::filter_tiles(x.size(2)), parts = parts_of_heads(x, tiles);
  const auto sums = at::zeros({parts, x.size(0), filter.size(0), filter.size(1)}, filter.options());
  each_part(x, parts, tiles, 16 * filter.size(1) * x.size(3), [&](const HeadPart& p) {
    const kernels::TokenFilterBackward<T> task = {
        .past = task_of<T>(x, filter, dx, p),
        .dout = rows_of<const T>(dout, p.batch, p.head),
        .dfilter = data_of<T>(sums[p.part], p.batch, p.head)};
    kernels::token_filter_backward(task, p.first, p.last);
  });
  return sums.sum(at::IntArrayRef({0, 1}));
}

Two backward_on_cpu(const Tensor& given_dout, const Tensor& given_x, const Tensor& given_filter) {
  if (given_x.numel() == 0) return {at::empty_like(given_x), at::zeros_like(given_filter)};
  const auto x = readable_rows(given_x), dout = readable_rows(given_dout);
  const auto filter = given_filter.to(x.scalar_type()).contiguous(), dx = empty_rows(x, x.size(3));
  const auto dfilter = x.scalar_type() == at::kDouble ? run_backward<double>(dout, x, filter, dx)
                                                      : run_backward<float>(dout, x, filter, dx);
  return {dx.to(given_x.scalar_type()), dfilter.to(given_filter.scalar_type())};
}

Tensor on_meta(const Tensor& x, const Tensor&) {
  return at::empty_like(x);
}
Two backward_on_meta(const Tensor&, const Tensor& x, const Tensor& filter) {
  return {at::empty_like(x), at::empty_like(filter)};
}

Tensor call(const Tensor& x, const Tensor& filter) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::head_filter", "")
                             .typed<decltype(on_meta)>();
  return op.call(x, filter);
}
Two call_backward(const Tensor& dout, const Tensor& x, const Tensor& filter) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::head_filter_backward", "")
                             .typed<decltype(backward_on_cpu)>();
  return op.call(dout, x, filter);
}

struct Gradient : Differentiable {
  TensorVector forward(const TensorVector& inputs) override {
    save(inputs);
    const at::AutoDispatchBelowADInplaceOrView below;
    return {call(inputs[0], inputs[1])};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "head_filter has no second derivative");
    const auto kept = saved();
    const auto [dx, dfilter] = call_backward(gradients[0], kept[0], kept[1]);
    return {dx, dfilter};
  }
};

Tensor with_gradient(const Tensor& x, const Tensor& filter) {
  if (!wants_gradient(x, filter)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(x, filter);
  }
  return applied<Gradient>({x, filter})[0];
}
Two backward_with_gradient(const Tensor& dout, const Tensor& x, const Tensor& filter) {
  TORCH_CHECK(!wants_gradient(dout, x, filter), "head_filter has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(dout, x, filter);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("head_filter(Tensor x, Tensor filter) -> Tensor");
  m.def(
      "head_filter_backward(Tensor dout, Tensor x, Tensor filter) -> (Tensor dx, Tensor dfilter)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("head_filter", on_cpu);
  m.impl("head_filter_backward", backward_on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("head_filter", on_meta);
  m.impl("head_filter_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("head_filter", with_gradient);
  m.impl("head_filter_backward", backward_with_gradient);
}

}  // namespace

Tensor head_filter(const Tensor& x, const Tensor& filter) {
  TORCH_CHECK(
      x.dim() == 4 && filter.dim() == 2 && filter.size(0) == x.size(1) && filter.size(1) % 2 == 1,
      "head_filter: x is ", x.sizes(), ", the filter ", filter.sizes());
  return call(x, filter);
}

Tensor head_filter_formula(const Tensor& x, const Tensor& filter) {
  const auto type = type_of_sums(x);
  return at::conv2d(x.to(type), of_image(filter, type), {}, 1,
                    at::IntArrayRef({filter.size(1) / 2, 0}), 1, x.size(1))
      .to(x.scalar_type());
}

FilterGradients head_filter_formula_backward(const Tensor& dout, const Tensor& x,
                                             const Tensor& filter) {
  const auto type = type_of_sums(x);
  const int64_t padding[] = {filter.size(1) / 2, 0}, one[] = {1, 1}, none[] = {0, 0};
  const auto [dx, dfilter, bias] = at::convolution_backward(
      dout.to(type), x.to(type), of_image(filter, type), at::OptionalIntArrayRef(), one, padding,
      one, false, none, x.size(1), std::array{true, true, false});
  return {dx.to(x.scalar_type()), dfilter.view(filter.sizes()).to(filter.scalar_type())};
}

}  // namespace longbow
