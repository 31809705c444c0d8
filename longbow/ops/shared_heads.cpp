#include "longbow/ops/shared_heads.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;

// The number of parts that are one sum, and the first of them.
template <class F>
void each_sum(at::IntArrayRef terms, const F& body) {
  size_t first = 0;
  for (const int64_t count : terms) {
    body(first, static_cast<size_t>(count));
    first += static_cast<size_t>(count);
  }
}

void check(at::TensorList parts, at::IntArrayRef terms) {
  const int64_t all = std::accumulate(terms.begin(), terms.end(), int64_t{0});
  const bool some = std::ranges::all_of(terms, [](int64_t count) { return count > 0; });
  TORCH_CHECK(!terms.empty() && some && all == static_cast<int64_t>(parts.size()),
              "sum_heads: ", parts.size(), " parts for sums of ", terms);
  each_sum(terms, [&](size_t first, size_t count) {
    const auto& one = parts[first];
    for (const auto& x : parts.slice(first, count))
      TORCH_CHECK(x.dim() == 4 && x.sizes() == one.sizes() && x.size(0) == parts[0].size(0) &&
                      x.size(2) == parts[0].size(2) && x.scalar_type() == parts[0].scalar_type(),
                  "sum_heads: a part of ", x.sizes(), " ", x.scalar_type(), " beside ", one.sizes(),
                  " and ", parts[0].sizes(), " ", parts[0].scalar_type());
  });
}

Tensor on_cpu(at::TensorList parts, at::IntArrayRef terms) {
  check(parts, terms);
  return sum_heads_formula(parts, terms);
}
Tensor on_meta(at::TensorList parts, at::IntArrayRef terms) {
  check(parts, terms);
  int64_t width = 0;
  each_sum(terms,
           [&](size_t first, size_t) { width += parts[first].size(1) * parts[first].size(3); });
  return at::empty({parts[0].size(0), parts[0].size(2), width}, parts[0].options());
}

Tensor call(at::TensorList parts, at::IntArrayRef terms) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::sum_heads", "")
                             .typed<Tensor(at::TensorList, at::IntArrayRef)>();
  return op.call(parts, terms);
}

// Every term has the gradient of its sum.
Tensor with_gradient(at::TensorList parts, at::IntArrayRef terms) {
  if (std::ranges::any_of(parts, [](const Tensor& x) { return wants_gradient(x); }))
    return on_cpu(parts, terms);  // as the formula records it
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(parts, terms);
}

// The sums of what the readers found.
struct Gradient : Differentiable {
  explicit Gradient(at::IntArrayRef given) : readers(given.vec()) {}
  const std::vector<int64_t> readers;

  TensorVector forward(const TensorVector& inputs) override {
    TensorVector views;
    for (size_t i = 0; i < inputs.size(); ++i)
      for (int64_t r = 0; r < readers[i]; ++r) views.push_back(inputs[i].alias());
    return views;
  }
  TensorVector backward(const TensorVector& gradients) override {
    const auto rows = sum_heads(gradients, readers);
    TensorVector found;
    int64_t column = 0;
    each_sum(readers, [&](size_t first, size_t) {
      const int64_t heads = gradients[first].size(1), width = gradients[first].size(3);
      found.push_back(
          rows.narrow(2, column, heads * width).unflatten(2, {heads, width}).transpose(1, 2));
      column += heads * width;
    });
    return found;
  }
};

bool has_kernel(const std::vector<Tensor>& tensors) {
  return std::ranges::all_of(tensors, [&](const Tensor& x) {
    return x.is_cuda() && (x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf) &&
           x.scalar_type() == tensors[0].scalar_type() && x.dim() == 4 &&
           x.size(0) == tensors[0].size(0) && x.size(2) == tensors[0].size(2);
  });
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("sum_heads(Tensor[] parts, int[] terms) -> Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("sum_heads", on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("sum_heads", on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("sum_heads", with_gradient);
}

}  // namespace

Tensor sum_heads(const std::vector<Tensor>& parts, at::IntArrayRef terms) {
  check(parts, terms);
  return call(parts, terms);
}

Tensor sum_heads_formula(at::TensorList parts, at::IntArrayRef terms) {
  TensorVector sums;
  each_sum(terms, [&](size_t first, size_t count) {
    auto sum = parts[first];
    if (count > 1 && at::isReducedFloatingType(sum.scalar_type())) sum = sum.to(at::kFloat);
    for (const auto& x : parts.slice(first + 1, count - 1)) sum = sum + x;
    sums.push_back(sum.to(parts[first].scalar_type()).transpose(1, 2).flatten(2));
  });
  return at::cat(sums, 2);
}

std::vector<std::vector<Tensor>> shared_heads(const std::vector<Tensor>& tensors,
                                              at::IntArrayRef readers) {
  TORCH_CHECK(tensors.size() == readers.size() && !tensors.empty(),
              "shared_heads: ", tensors.size(), " tensors, but readers of ", readers.size());
  const bool records =
      std::ranges::any_of(tensors, [](const Tensor& x) { return wants_gradient(x); });
  TensorVector views;
  if (records && has_kernel(tensors)) views = applied<Gradient>(tensors, readers);
  std::vector<std::vector<Tensor>> found;
  size_t next = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    auto& own = found.emplace_back();
    for (int64_t r = 0; r < readers[i]; ++r)
      own.push_back(views.empty() ? tensors[i] : views[next++]);
  }
  return found;
}

}  // namespace longbow
