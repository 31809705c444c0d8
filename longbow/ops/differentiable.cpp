#include "longbow/ops/differentiable.h"

#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace longbow {
namespace {

using at::Tensor, torch::autograd::AutogradContext;

// The form in which a node of the graph can own it.
struct Held : torch::CustomClassHolder {
  explicit Held(std::shared_ptr<Differentiable> held) : function(std::move(held)) {}
  std::shared_ptr<Differentiable> function;
};

}  // namespace

// LibTorch sees the inputs that are defined.
struct Differentiable::InGraph : torch::autograd::Function<InGraph> {
  static TensorVector forward(AutogradContext* context,
                              const std::shared_ptr<Differentiable>& function,
                              at::TensorList defined) {
    context->saved_data["function"] =
        c10::IValue::make_capsule(c10::make_intrusive<Held>(function));
    function->context_ = context;
    TensorVector inputs(function->defined_.size());
    size_t next = 0;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (function->defined_[i]) inputs[i] = defined[next++];
    context->set_materialize_grads(false);  // LibTorch's zeros are also those of constants
    const auto outputs = function->forward(inputs);
    for (const auto& y : outputs) {
      const bool constant = std::ranges::any_of(
          function->constants_, [&](const Tensor& other) { return other.is_same(y); });
      function->outputs_.push_back({!constant, y.sizes().vec(), y.options()});
    }
    function->constants_.clear();
    return outputs;
  }

  static TensorVector backward(AutogradContext* context, const TensorVector& gradients) {
    const auto held =
        c10::static_intrusive_pointer_cast<Held>(context->saved_data.at("function").toCapsule());
    auto given = gradients;
    for (size_t i = 0; i < given.size(); ++i)
      if (const auto& y = held->function->outputs_[i]; y.has_gradient && !given[i].defined())
        given[i] = at::zeros(y.sizes, y.options);
    const auto found = held->function->backward(given);
    const auto& defined = held->function->defined_;
    TORCH_CHECK(found.size() == defined.size(), "a gradient of ", defined.size(),
                " inputs returned ", found.size());
    TensorVector result = {Tensor()};  // of the object itself
    for (size_t i = 0; i < found.size(); ++i)
      if (defined[i]) result.push_back(found[i]);
    return result;
  }
};

void Differentiable::save(TensorVector tensors) {
  context_->save_for_backward(std::move(tensors));
}

void Differentiable::no_gradient_of(const TensorVector& outputs) {
  constants_ = outputs;
  context_->mark_non_differentiable(outputs);
}

TensorVector Differentiable::saved() const {
  return context_->get_saved_variables();
}

bool Differentiable::wants_gradient_of(size_t input) const {
  const auto place = defined_.begin() + static_cast<std::ptrdiff_t>(input);
  const auto edge = std::count(defined_.begin(), place, true);
  return *place && context_->needs_input_grad(static_cast<size_t>(edge));
}

TensorVector applied(const std::shared_ptr<Differentiable>& function, const TensorVector& inputs) {
  TORCH_CHECK(!function->context_, "a differentiable function was applied before");
  TensorVector defined;
  for (const auto& input : inputs) {
    function->defined_.push_back(input.defined());
    if (input.defined()) defined.push_back(input);
  }
  return Differentiable::InGraph::apply(function, at::TensorList(defined));
}

}  // namespace longbow
