#include "longbow/nn/contract/recompute.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/differentiable.h"

namespace longbow {
namespace {

TensorVector outputs_of(const Tensor& y, const Context& inner,
                        const std::vector<std::string>& produced) {
  TensorVector outputs = {y};
  if (inner.loss.defined()) outputs.push_back(inner.loss);
  for (const auto& key : produced) outputs.push_back(inner.carry.at(key));
  return outputs;
}

// Inputs and outputs are flat lists: inputs x, memory, carry values, parameters; outputs y, loss
// (or nothing), carry values.
struct Recomputed : Differentiable {
  Body body;
  Context context;
  Rerun rerun;
  std::vector<std::string> carried, produced;
  bool has_memory = false, has_loss = false;

  // The inputs put back where the body looks for them.
  Context opened(const TensorVector& inputs) const {
    Context inner = context;
    size_t i = 1;
    if (has_memory) inner.memory = inputs[i++];
    for (const auto& key : carried) inner.carry[key] = inputs[i++];
    inner.loss = Tensor();
    return inner;
  }

  TensorVector forward(const TensorVector& inputs) override {
    auto inner = opened(inputs);
    rerun.before_first(inner);
    const auto y = body(inputs[0], inner);
    rerun.after_first(context);
    has_loss = inner.loss.defined();
    for (const auto& [key, value] : inner.carry) produced.push_back(key);
    save(inputs);
    return outputs_of(y, inner, produced);
  }

  TensorVector backward(const TensorVector& gradients) override {
    auto inputs = saved();
    // The first inputs are cut from their graph; parameters are leaves already and stay themselves.
    const size_t cut = 1 + (has_memory ? 1 : 0) + carried.size();
    for (size_t i = 0; i < cut; ++i)
      inputs[i] = inputs[i].detach().requires_grad_(inputs[i].requires_grad());
    auto inner = opened(inputs);
    rerun.before_second(inner);
    at::AutoGradMode on(true);
    const auto y = body(inputs[0], inner);

    TensorVector roots, seeds, wanted;
    const auto outputs = outputs_of(y, inner, produced);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (gradients[i].defined() && outputs[i].requires_grad()) {
        roots.push_back(outputs[i]);
        seeds.push_back(gradients[i]);
      }
    for (const auto& input : inputs)
      if (input.requires_grad()) wanted.push_back(input);
    TensorVector found(wanted.size());
    if (!roots.empty() && !wanted.empty())
      found = torch::autograd::grad(roots, wanted, seeds, false, false, /*allow_unused=*/true);
    TensorVector result;
    size_t next = 0;
    for (const auto& input : inputs)
      result.push_back(input.requires_grad() ? found[next++] : Tensor());
    return result;
  }
};

bool computes(const Choices* choices) {
  return !choices || choices->mode == Choices::Mode::compute;
}

}  // namespace

void Rerun::before_first(Context& context) {
  if (!computes(context.choices)) return;
  choices_.mode = Choices::Mode::record;
  context.choices = &choices_;
}
void Rerun::after_first(const Context& given) {
  if (!computes(given.choices)) choices_.kept = given.choices->kept;
  choices_.mode = Choices::Mode::replay;
}
void Rerun::before_second(Context& context) {
  context.recomputing = true;
  context.choices = &choices_;
  maps_.clear();
  if (context.maps) context.maps = &maps_;
}

Tensor recomputed(const Body& body, const Tensor& x, Context& context,
                  const std::vector<Tensor>& parameters) {
  const auto job = std::make_shared<Recomputed>();
  job->body = body;
  job->context = context;
  job->context.loss = Tensor();
  TensorVector inputs = {x};
  if ((job->has_memory = context.memory.defined())) inputs.push_back(context.memory);
  for (const auto& [key, value] : context.carry) {
    job->carried.push_back(key);
    inputs.push_back(value);
  }
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  const auto outputs = applied(job, inputs);
  size_t i = 1;
  if (job->has_loss) context.add_loss(outputs[i++]);
  for (const auto& key : job->produced) context.carry[key] = outputs[i++];
  return outputs[0];
}

}  // namespace longbow
