#include "longbow/ops/members.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;

void check(const char* op, const Tensor& x, const Tensor& token, const Tensor& place,
           int64_t rows) {
  TORCH_CHECK(token.dim() == 4 && place.dim() == 4 && x.dim() == 4 &&
                  token.sizes().slice(0, 3) == place.sizes().slice(0, 3) &&
                  x.sizes().slice(0, 2) == token.sizes().slice(0, 2) && x.size(2) == rows,
              op, ": x is ", x.sizes(), " but members are ", token.sizes(), " of ",
              place.dim() == 4 ? place.size(3) : 0, " tokens");
}
void check_taken(const Tensor& x, const Tensor& token, const Tensor& place) {
  check("take_members", x, token, place, place.dim() == 4 ? place.size(3) : 0);
}
void check_summed(const Tensor& x, const Tensor& token, const Tensor& place) {
  check("sum_members", x, token, place, token.dim() == 4 ? token.size(2) * token.size(3) : 0);
}

Tensor take_on_meta(const Tensor& x, const Tensor& token, const Tensor&, Divided) {
  return at::empty({x.size(0), x.size(1), token.size(2) * token.size(3), x.size(3)}, x.options());
}
Tensor sum_on_meta(const Tensor& x, const Tensor&, const Tensor& place, Divided) {
  return at::empty({x.size(0), x.size(1), place.size(3), x.size(3)}, x.options());
}

using Operator = Tensor(const Tensor&, const Tensor&, const Tensor&, Divided);
Tensor call_take(const Tensor& x, const Tensor& token, const Tensor& place, Divided added) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("longbow::take_members", "").typed<Operator>();
  return op.call(x, token, place, added);
}
Tensor call_sum(const Tensor& x, const Tensor& token, const Tensor& place, Divided added) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("longbow::sum_members", "").typed<Operator>();
  return op.call(x, token, place, added);
}

// Both are linear in x and the transpose of each other.
template <auto kForward, auto kBackward>
struct Gradient : Differentiable {
  explicit Gradient(Divided given) : added(given) {}
  const Divided added;

  TensorVector forward(const TensorVector& inputs) override {
    save({inputs[1], inputs[2]});
    const at::AutoDispatchBelowADInplaceOrView below;
    return {kForward(inputs[0], inputs[1], inputs[2], added)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    const auto kept = saved();
    return {kBackward(gradients[0], kept[0], kept[1], added), {}, {}};
  }
};

template <auto kForward, auto kBackward>
Tensor with_gradient(const Tensor& x, const Tensor& token, const Tensor& place, Divided added) {
  if (wants_gradient(x)) return applied<Gradient<kForward, kBackward>>({x, token, place}, added)[0];
  const at::AutoDispatchBelowADInplaceOrView below;
  return kForward(x, token, place, added);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("take_members(Tensor x, Tensor token, Tensor place, float? added) -> Tensor");
  m.def("sum_members(Tensor x, Tensor token, Tensor place, float? added) -> Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("take_members", take_members_formula);
  m.impl("sum_members", sum_members_formula);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("take_members", take_on_meta);
  m.impl("sum_members", sum_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("take_members", with_gradient<call_take, call_sum>);
  m.impl("sum_members", with_gradient<call_sum, call_take>);
}

Tensor wide(const Tensor& x) {
  return x.to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}
// Of each token, [B, H, N].
Tensor shares(const Tensor& place, double added, const at::TensorOptions& options) {
  const auto count = (place >= 0).sum(2).to(options);
  return (added > 0 ? count + added : count.clamp_min(1)).reciprocal();
}

}  // namespace

Members Members::of(const Tensor& token, int64_t tokens) {
  const int64_t clusters = token.size(2), each = token.size(3);
  const auto options = token.options().dtype(at::kInt);
  const auto number = at::arange(clusters * each, options).view({1, 1, clusters, each});
  return {token, at::full({token.size(0), token.size(1), clusters, tokens}, -1, options)
                     .scatter_(3, token, number.expand(token.sizes()))};
}

Tensor take_members(const Tensor& x, const Members& members, Divided added) {
  check_taken(x, members.token, members.place);
  return call_take(x, members.token, members.place, added);
}
Tensor sum_members(const Tensor& x, const Members& members, Divided added) {
  check_summed(x, members.token, members.place);
  return call_sum(x, members.token, members.place, added);
}

Tensor take_members_formula(const Tensor& x, const Tensor& token, const Tensor& place,
                            Divided added) {
  const auto index = token.flatten(2);
  const auto rows = x.gather(2, index.unsqueeze(-1).expand({-1, -1, -1, x.size(3)}));
  if (!added) return rows;
  const auto all = wide(rows);
  return (all * shares(place, *added, all.options()).gather(2, index).unsqueeze(-1))
      .to(x.scalar_type());
}

Tensor sum_members_formula(const Tensor& x, const Tensor& token, const Tensor& place,
                           Divided added) {
  const auto rows = wide(x);
  const auto index = token.flatten(2).unsqueeze(-1).expand_as(rows);
  const auto sums = at::zeros({x.size(0), x.size(1), place.size(3), x.size(3)}, rows.options())
                        .scatter_add(2, index, rows);
  return (added ? sums * shares(place, *added, rows.options()).unsqueeze(-1) : sums)
      .to(x.scalar_type());
}

}  // namespace longbow
