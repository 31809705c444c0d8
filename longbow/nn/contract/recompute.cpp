#include "longbow/nn/contract/recompute.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace longbow {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What the two runs share. Inputs and outputs of the node are flat lists:
// inputs x, memory, carry values, parameters; outputs y, loss (or nothing), carry values.
struct Job : torch::CustomClassHolder {
  Body body;
  Context context;
  Choices choices;
  std::vector<std::string> carried, produced;
  bool has_memory = false, has_loss = false;

  // The inputs of the node put back where the body looks for them.
  Context opened(const variable_list& inputs) const {
    Context inner = context;
    size_t i = 1;
    if (has_memory) inner.memory = inputs[i++];
    for (const auto& key : carried) inner.carry[key] = inputs[i++];
    inner.loss = Tensor();
    return inner;
  }
};

variable_list outputs_of(const Tensor& y, const Context& inner,
                         const std::vector<std::string>& produced) {
  variable_list outputs = {y};
  if (inner.loss.defined()) outputs.push_back(inner.loss);
  for (const auto& key : produced) outputs.push_back(inner.carry.at(key));
  return outputs;
}

struct Recompute : torch::autograd::Function<Recompute> {
  static variable_list forward(AutogradContext* node, const c10::intrusive_ptr<Job>& job,
                               at::TensorList given) {
    const auto inputs = given.vec();
    auto inner = job->opened(inputs);
    job->choices.mode = Choices::Mode::record;
    if (!inner.choices) inner.choices = &job->choices;
    Tensor y;
    {
      at::AutoGradMode off(false);
      y = job->body(inputs[0], inner);
    }
    job->has_loss = inner.loss.defined();
    for (const auto& [key, value] : inner.carry) job->produced.push_back(key);
    node->save_for_backward(inputs);
    node->saved_data["job"] = c10::IValue::make_capsule(job);
    return outputs_of(y, inner, job->produced);
  }

  static variable_list backward(AutogradContext* node, const variable_list& gradients) {
    const auto job = c10::static_intrusive_pointer_cast<Job>(node->saved_data["job"].toCapsule());
    const auto saved = node->get_saved_variables();
    // The first inputs are cut from their graph; parameters are leaves already and stay themselves.
    const size_t cut = 1 + (job->has_memory ? 1 : 0) + job->carried.size();
    variable_list inputs = saved;
    for (size_t i = 0; i < cut; ++i)
      inputs[i] = saved[i].detach().requires_grad_(saved[i].requires_grad());
    auto inner = job->opened(inputs);
    inner.recomputing = true;
    job->choices.mode = Choices::Mode::replay;
    if (!job->context.choices) inner.choices = &job->choices;
    at::AutoGradMode on(true);
    const auto y = job->body(inputs[0], inner);

    variable_list roots, seeds, wanted;
    const auto outputs = outputs_of(y, inner, job->produced);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (gradients[i].defined() && outputs[i].requires_grad()) {
        roots.push_back(outputs[i]);
        seeds.push_back(gradients[i]);
      }
    for (const auto& input : inputs)
      if (input.requires_grad()) wanted.push_back(input);
    variable_list found(wanted.size());
    if (!roots.empty() && !wanted.empty())
      found = torch::autograd::grad(roots, wanted, seeds, false, false, /*allow_unused=*/true);
    variable_list result = {Tensor()};
    size_t next = 0;
    for (const auto& input : inputs)
      result.push_back(input.requires_grad() ? found[next++] : Tensor());
    return result;
  }
};

}  // namespace

Tensor recomputed(const Body& body, const Tensor& x, Context& context,
                  const std::vector<Tensor>& parameters) {
  auto job = c10::make_intrusive<Job>();
  job->body = body;
  job->context = context;
  job->context.loss = Tensor();
  variable_list inputs = {x};
  if ((job->has_memory = context.memory.defined())) inputs.push_back(context.memory);
  for (const auto& [key, value] : context.carry) {
    job->carried.push_back(key);
    inputs.push_back(value);
  }
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  const auto outputs = Recompute::apply(job, at::TensorList(inputs));
  size_t i = 1;
  if (job->has_loss) context.add_loss(outputs[i++]);
  for (const auto& key : job->produced) context.carry[key] = outputs[i++];
  return outputs[0];
}

}  // namespace longbow
