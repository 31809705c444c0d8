#include "longbow/ops/state_space.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/ops/decayed_product.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

void check(const Tensor& rows, const Tensor& step, const Tensor& log_decay, const Tensor& skip,
           int64_t groups, int64_t state) {
  TORCH_CHECK(step.dim() == 3 && step.sizes() == log_decay.sizes(), "state_space: step is ",
              step.sizes(), " but log_decay is ", log_decay.sizes());
  const int64_t heads = step.size(2);
  TORCH_CHECK(groups > 0 && heads > 0 && heads % groups == 0, "state_space: ", heads, " heads in ",
              groups, " groups");
  TORCH_CHECK(rows.dim() == 3 && rows.sizes().slice(0, 2) == step.sizes().slice(0, 2) &&
                  rows.size(2) > 2 * groups * state &&
                  (rows.size(2) - 2 * groups * state) % heads == 0,
              "state_space: rows are ", rows.sizes(), " but steps are ", step.sizes(), ", with ",
              groups, " groups of ", state);
  TORCH_CHECK(skip.dim() == 1 && skip.size(0) == heads, "state_space: ", heads,
              " heads but skip is ", skip.sizes());
}

// Through a product of sums that fade by columns, which may have kernels of its own.
template <class Product>
Tensor composed(const Tensor& rows, const Tensor& step, const Tensor& log_decay, const Tensor& skip,
                const StateSpace& how, Tensor& sums, const Product& product) {
  check(rows, step, log_decay, skip, how.groups, how.state);
  const auto parts = state_space_parts(rows, step, log_decay, how.groups, how.state);
  const int64_t heads = step.size(2), inner = rows.size(2) - 2 * how.groups * how.state;
  const auto all = rows.narrow(2, 0, inner);
  const auto stepped =
      (step.to(rows.scalar_type()).unsqueeze(-1) * all.unflatten(2, {heads, -1})).flatten(2);
  const auto read = product(
      parts.c, parts.b, stepped.unflatten(2, {how.groups, -1}).transpose(1, 2), parts.log_decay,
      DecayedProduct{.fading = Fading::columns, .reversed = how.reversed}, sums);
  const auto type = log_decay.scalar_type();
  const auto skipped = skip.to(type).repeat_interleave(inner / heads) * all.to(type);
  return (read.transpose(1, 2).flatten(2).to(type) + skipped).to(rows.scalar_type());
}

Tensor by_product(const Tensor& rows, const Tensor& step, const Tensor& log_decay,
                  const Tensor& skip, const StateSpace& how, Tensor& sums) {
  return composed(rows, step, log_decay, skip, how, sums,
                  [](auto&&... arguments) { return decayed_product(arguments...); });
}

// out, the sums after the last token, and those before each chunk in a form of the kernels' own.
Three by_aten(const Tensor& rows, const Tensor& step, const Tensor& log_decay, const Tensor& skip,
              const Maybe& sums, int64_t groups, int64_t state, bool reversed) {
  auto after = sums.value_or(Tensor());
  const auto out = by_product(rows, step, log_decay, skip, {groups, state, reversed}, after);
  return {out, after, at::empty({0}, log_decay.options())};
}

Three on_meta(const Tensor& rows, const Tensor& step, const Tensor& log_decay, const Tensor& skip,
              const Maybe& sums, int64_t groups, int64_t state, bool) {
  check(rows, step, log_decay, skip, groups, state);
  const int64_t inner = rows.size(2) - 2 * groups * state;
  return {at::empty({rows.size(0), rows.size(1), inner}, rows.options()),
          sums ? at::empty_like(*sums)
               : at::empty({rows.size(0), groups, state, inner / groups}, log_decay.options()),
          at::empty({0}, log_decay.options())};
}
Five backward_on_meta(const Tensor&, const Tensor& dsums, const Tensor& rows, const Tensor& step,
                      const Tensor& log_decay, const Tensor& skip, const Tensor&, int64_t, int64_t,
                      bool) {
  return {at::empty_like(rows), at::empty_like(step), at::empty_like(log_decay),
          at::empty_like(skip), at::empty_like(dsums)};
}

Three call(const Tensor& rows, const Tensor& step, const Tensor& log_decay, const Tensor& skip,
           const Tensor& sums, const StateSpace& how) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::state_space", "")
                             .typed<decltype(by_aten)>();
  return op.call(rows, step, log_decay, skip, sums.defined() ? Maybe(sums) : Maybe(), how.groups,
                 how.state, how.reversed);
}

// That of the kernels: those of decayed_product, of values that were multiplied by their steps.
struct Gradient : Differentiable {
  explicit Gradient(const StateSpace& given) : how(given) {}
  const StateSpace how;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, after, before] =
        call(inputs[0], inputs[1], inputs[2], inputs[3], inputs[4], how);
    save({inputs[0], inputs[1], inputs[2], inputs[3], before});
    no_gradient_of({before});
    return {out, after, before};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "state_space has no second derivative here");
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("longbow::state_space_backward", "")
                               .typed<decltype(backward_on_meta)>();
    const auto kept = saved();
    const auto [drows, dstep, dlog_decay, dskip, dsums] =
        op.call(gradients[0], gradients[1], kept[0], kept[1], kept[2], kept[3], kept[4], how.groups,
                how.state, how.reversed);
    return {drows, dstep, dlog_decay, dskip, dsums};
  }
};

// A single token in few passes over the sums, of which chunks would multiply what is not there.
bool is_composed(const Tensor& rows, const Tensor& step, const Tensor& log_decay,
                 const Tensor& skip, const Tensor& sums, const StateSpace& how) {
  if (!rows.is_cuda() || rows.size(1) != 1)
    return !has_state_space_kernel(rows, step, log_decay, how);
  return wants_gradient(rows, step, log_decay, skip, sums) ||
         !has_state_token_kernel(rows, step, log_decay);
}

// The formula is recorded as it is.
Three with_gradient(const Tensor& rows, const Tensor& step, const Tensor& log_decay,
                    const Tensor& skip, const Maybe& sums, int64_t groups, int64_t state,
                    bool reversed) {
  check(rows, step, log_decay, skip, groups, state);
  const StateSpace how = {groups, state, reversed};
  const auto first = sums.value_or(Tensor());
  if (is_composed(rows, step, log_decay, skip, first, how))
    return by_aten(rows, step, log_decay, skip, sums, groups, state, reversed);
  if (!wants_gradient(rows, step, log_decay, skip, first)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(rows, step, log_decay, skip, first, how);
  }
  const auto found = applied<Gradient>({rows, step, log_decay, skip, first}, how);
  return {found[0], found[1], found[2]};
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "state_space(Tensor rows, Tensor step, Tensor log_decay, Tensor skip, Tensor? sums, "
      "int groups, int state, bool reversed) -> (Tensor out, Tensor after, Tensor before)");
  m.def(
      "state_space_backward(Tensor dout, Tensor dsums, Tensor rows, Tensor step, "
      "Tensor log_decay, Tensor skip, Tensor before, int groups, int state, bool reversed) -> "
      "(Tensor drows, Tensor dstep, Tensor dlog_decay, Tensor dskip, Tensor dfirst)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("state_space", by_aten);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("state_space", on_meta);
  m.impl("state_space_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("state_space", with_gradient);
}

}  // namespace

Tensor state_space(const Tensor& rows, const Tensor& step, const Tensor& log_decay,
                   const Tensor& skip, const StateSpace& how, Tensor& sums) {
  const auto found = call(rows, step, log_decay, skip, sums, how);
  sums = std::get<1>(found);
  return std::get<0>(found);
}

bool has_state_space_kernel(const Tensor& rows, const Tensor& step, const Tensor& log_decay,
                            const StateSpace& how) {
  if (!rows.is_cuda() || step.scalar_type() != at::kFloat) return false;
  const auto parts = state_space_parts(rows, step, log_decay, how.groups, how.state);
  return has_decay_kernel(parts.c, parts.b, parts.x, parts.log_decay, Fading::columns);
}

bool has_state_token_kernel(const Tensor& rows, const Tensor& step, const Tensor& log_decay) {
  constexpr int64_t kMostBlocks = 65535;  // groups of all sequences
  return rows.is_cuda() && rows.dim() == 3 && rows.size(1) == 1 && rows.numel() > 0 &&
         (rows.scalar_type() == at::kBFloat16 || rows.scalar_type() == at::kFloat) &&
         step.scalar_type() == at::kFloat && log_decay.scalar_type() == at::kFloat &&
         step.numel() <= kMostBlocks;
}

Tensor state_space_formula(const Tensor& rows, const Tensor& step, const Tensor& log_decay,
                           const Tensor& skip, const StateSpace& how, Tensor& sums) {
  return composed(rows, step, log_decay, skip, how, sums,
                  [](auto&&... arguments) { return decayed_product_formula(arguments...); });
}

StateSpaceParts state_space_parts(const Tensor& rows, const Tensor& step, const Tensor& log_decay,
                                  int64_t groups, int64_t state) {
  const auto by_group = [&](const Tensor& t) {
    return t.unflatten(2, {groups, -1}).transpose(1, 2);
  };
  const int64_t keys = groups * state;
  const auto parts = rows.split_with_sizes({rows.size(2) - 2 * keys, keys, keys}, 2);
  return {by_group(parts[0]), by_group(parts[1]), by_group(parts[2]), by_group(step),
          by_group(log_decay)};
}

}  // namespace longbow
