#include "longbow/nn/layers/stack.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/nn/contract/recompute.h"
#include "longbow/ops/differentiable.h"

namespace longbow {
namespace {

Tensor leaf(const Tensor& x) {
  return x.defined() && x.is_floating_point() ? x.detach().requires_grad_() : x;
}

Tensor plus(const Tensor& sum, const Tensor& term) {
  if (!sum.defined()) return term;
  return term.defined() ? sum + term : sum;
}

// Gradients of everything that a walk back through the blocks meets, by tensor.
class Gathered {
 public:
  // Back through one branch: `roots` with their gradients, to the leaves and parameters.
  TensorVector through(const std::vector<std::pair<Tensor, Tensor>>& roots,
                       const TensorVector& leaves, const TensorVector& parameters) {
    TensorVector from, seeds, wanted = leaves;
    for (const auto& [root, seed] : roots)
      if (root.defined() && seed.defined() && root.requires_grad()) {
        from.push_back(root);
        seeds.push_back(seed);
      }
    for (const auto& parameter : parameters)
      if (parameter.requires_grad()) wanted.push_back(parameter);
    if (from.empty()) return TensorVector(leaves.size());
    auto found = torch::autograd::grad(from, wanted, seeds, false, false, /*allow_unused=*/true);
    for (size_t i = leaves.size(); i < wanted.size(); ++i) {
      auto& sum = sums_[wanted[i].unsafeGetTensorImpl()];
      sum = plus(sum, found[i]);
    }
    found.resize(leaves.size());
    return found;
  }
  Tensor of(const Tensor& parameter) const {
    const auto found = sums_.find(parameter.unsafeGetTensorImpl());
    return found == sums_.end() ? Tensor() : found->second;
  }

 private:
  std::map<const void*, Tensor> sums_;
};

// Both streams are x at first. They have float32 at least: rebuilding one that was rounded in every
// block would drift from what it was.
Tensor two_streams(const Tensor& x) {
  return at::cat({x, x}, -1).to(wide(x));
}
Tensor mean_of_streams(const Tensor& y, const Tensor& x) {
  return y.unflatten(-1, {2, -1}).mean(-2).to(x.scalar_type());
}

// Inputs: x, memory, carry values, parameters. Outputs: both streams, loss (or nothing), carry
// values.
struct Reversed : Differentiable {
  std::vector<Block> blocks;
  std::shared_ptr<Shared> shared;
  Context context;
  Rerun rerun;
  std::vector<std::string> carried, produced;
  std::vector<Tensors> carries;  // what entered each block
  bool has_memory = false, has_loss = false;

  TensorVector forward(const TensorVector& inputs) override {
    Context inner = context;
    inner.loss = Tensor();
    rerun.before_first(inner);
    Tensor first = inputs[0].to(wide(inputs[0])), second = first;
    for (const auto& block : blocks) {
      carries.push_back(inner.carry);
      const auto branch = block->branch();
      first = first + branch(0, second, inner);
      second = second + branch(1, first, inner);
    }
    rerun.after_first(context);
    has_loss = inner.loss.defined();
    TensorVector outputs = {first, second};
    if (has_loss) outputs.push_back(inner.loss);
    for (const auto& [key, value] : inner.carry) {
      produced.push_back(key);
      outputs.push_back(value);
    }
    auto kept = inputs;
    kept.push_back(first);
    kept.push_back(second);
    save(kept);
    return outputs;
  }

  TensorVector backward(const TensorVector& gradients) override {
    auto inputs = saved();
    auto second = inputs.back();
    inputs.pop_back();
    auto first = inputs.back();
    inputs.pop_back();
    auto d_first = gradients[0], d_second = gradients[1], d_memory = Tensor();
    size_t next = 2;
    const auto d_loss = has_loss ? gradients[next++] : Tensor();
    Tensors d_carry;
    for (const auto& key : produced) d_carry[key] = gradients[next++];

    const auto common = shared ? shared->parameters() : TensorVector();
    Gathered gathered;
    for (size_t i = blocks.size(); i-- > 0;) {
      const at::AutoGradMode on(true);
      const auto branch = blocks[i]->branch();
      auto parameters = blocks[i]->parameters();
      parameters.insert(parameters.end(), common.begin(), common.end());
      Context inner = context;
      inner.loss = Tensor();
      rerun.before_second(inner);
      inner.memory = leaf(context.memory);
      inner.carry = carries[i];
      for (auto& [key, value] : inner.carry) value = leaf(value);
      const auto entered = inner.carry;

      // second = before + branch(1, first), then first = before + branch(0, second).
      const auto y = leaf(first);
      Context feeding = inner;
      const auto fed = branch(1, y, feeding);
      d_first = plus(
          d_first, gathered.through({{fed, d_second}, {feeding.loss, d_loss}}, {y}, parameters)[0]);
      second = (second - fed).detach();
      const auto x = leaf(second);
      const auto mixed = branch(0, x, inner);
      std::vector<std::pair<Tensor, Tensor>> roots = {{mixed, d_first}, {inner.loss, d_loss}};
      for (const auto& [key, value] : inner.carry) roots.emplace_back(value, d_carry[key]);
      TensorVector leaves = {x};
      if (has_memory) leaves.push_back(inner.memory);
      for (const auto& [key, value] : entered)
        if (value.requires_grad()) leaves.push_back(value);
      const auto found = gathered.through(roots, leaves, parameters);
      d_second = plus(d_second, found[0]);
      size_t at = 1;
      if (has_memory) d_memory = plus(d_memory, found[at++]);
      d_carry.clear();
      for (const auto& [key, value] : entered)
        if (value.requires_grad()) d_carry[key] = found[at++];
      first = (first - mixed).detach();
    }

    TensorVector result = {plus(d_first, d_second).to(inputs[0].scalar_type())};
    if (has_memory) result.push_back(d_memory);
    for (const auto& key : carried) result.push_back(d_carry[key]);
    while (result.size() < inputs.size()) result.push_back(gathered.of(inputs[result.size()]));
    return result;
  }
};

}  // namespace

Stack::Stack(std::vector<Block> blocks, std::shared_ptr<Shared> shared)
    : blocks_(std::move(blocks)), shared_(std::move(shared)) {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    register_module(std::to_string(i), blocks_[i]);
    TORCH_CHECK(!blocks_[i]->branch() == !blocks_[0]->branch(),
                "a stack is reversible as a whole or not at all");
  }
}

Tensor Stack::operator()(const Tensor& x, Context& context) {
  const bool reversible = !blocks_.empty() && blocks_[0]->branch();
  if (reversible && is_training() && at::GradMode::is_enabled()) return reversed_later(x, context);
  auto y = reversible ? two_streams(x) : x;
  for (const auto& block : blocks_) y = block->forward(y, context);
  return reversible ? mean_of_streams(y, x) : y;
}

Tensor Stack::reversed_later(const Tensor& x, Context& context) {
  const auto run = std::make_shared<Reversed>();
  run->blocks = blocks_;
  run->shared = shared_;
  run->context = context;
  TensorVector inputs = {x};
  if ((run->has_memory = context.memory.defined())) inputs.push_back(context.memory);
  for (const auto& [key, value] : context.carry) {
    run->carried.push_back(key);
    inputs.push_back(value);
  }
  for (const auto& parameter : parameters()) inputs.push_back(parameter);
  if (shared_)
    for (const auto& parameter : shared_->parameters()) inputs.push_back(parameter);
  const auto outputs = applied(run, inputs);
  size_t i = 2;
  if (run->has_loss) context.add_loss(outputs[i++]);
  for (const auto& key : run->produced) context.carry[key] = outputs[i++];
  return ((outputs[0] + outputs[1]) / 2).to(x.scalar_type());
}

void Stack::start(State& state, int64_t lanes, int64_t capacity, Context& context) {
  state = {};
  for (size_t i = 0; i < blocks_.size(); ++i)
    blocks_[i]->start(state.child[std::to_string(i)], lanes, capacity, context);
}

Tensor Stack::extend(const Tensor& x, State& state, Context& context) {
  const bool reversible = !blocks_.empty() && blocks_[0]->branch();
  auto y = reversible ? two_streams(x) : x;
  for (size_t i = 0; i < blocks_.size(); ++i)
    y = blocks_[i]->extend(y, state.child.at(std::to_string(i)), context);
  return reversible ? mean_of_streams(y, x) : y;
}

}  // namespace longbow
