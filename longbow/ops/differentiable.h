#pragma once
// A function that brings its own gradient: torch::autograd::Function, compiled once. That template
// and its headers take five seconds to compile in every file that uses them.
#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>
#include <vector>

namespace torch::autograd {
struct AutogradContext;
}

namespace longbow {

using TensorVector = std::vector<at::Tensor>;

// Both passes. What they share and is no tensor is a member: sizes, options. An object is applied
// once and then belongs to its node in the graph.
class Differentiable {
 public:
  Differentiable() = default;
  Differentiable(const Differentiable&) = delete;
  Differentiable& operator=(const Differentiable&) = delete;
  virtual ~Differentiable() = default;

  // The outputs; nothing is recorded on the way. Inputs may be undefined.
  virtual TensorVector forward(const TensorVector& inputs) = 0;
  // For each input its gradient, or an undefined tensor; an output that nobody used has a gradient
  // of zeros, one without a gradient an undefined tensor. What is computed here is recorded where a
  // second derivative is asked for.
  virtual TensorVector backward(const TensorVector& gradients) = 0;

 protected:
  // In the forward pass, once: tensors for the backward pass, masks among them. A member that holds
  // an input or an output would keep the graph alive, and none would notice that it was changed in
  // place.
  void save(TensorVector tensors);
  void no_gradient_of(const TensorVector& outputs);
  // In the backward pass.
  TensorVector saved() const;
  bool wants_gradient_of(size_t input) const;

 private:
  struct InGraph;
  friend TensorVector applied(const std::shared_ptr<Differentiable>& function,
                              const TensorVector& inputs);
  // What the zeros in place of its gradient are like.
  struct Output {
    bool has_gradient;
    std::vector<int64_t> sizes;
    at::TensorOptions options;
  };
  torch::autograd::AutogradContext* context_ = nullptr;  // that of the node, once applied
  std::vector<bool> defined_;                            // of each input
  TensorVector constants_;                               // outputs without a gradient
  std::vector<Output> outputs_;
};

// The outputs, with the function in their graph where an input asks for a gradient.
TensorVector applied(const std::shared_ptr<Differentiable>& function, const TensorVector& inputs);

// applied<Norm>({x, weight}, epsilon): of an object that is made from `members`.
template <class Function, class... Members>
TensorVector applied(const TensorVector& inputs, Members&&... members) {
  return applied(std::make_shared<Function>(std::forward<Members>(members)...), inputs);
}

}  // namespace longbow
