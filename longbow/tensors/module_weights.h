#pragma once
// The weights of a module by name: read, loaded, and what does not fit.
#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "longbow/core/error.h"

namespace torch::nn {
class Module;
}

namespace longbow {

using Tensors = std::map<std::string, at::Tensor>;

// Parameters and buffers by name.
Tensors weights_of(const torch::nn::Module& module);

// Gathers everything that does not fit, so that one message can say all of it.
class Misfits {
 public:
  void missing(const std::string& name) { lines_.push_back("missing " + name); }
  void unexpected(const std::string& name) { lines_.push_back("unexpected " + name); }
  // Of another shape, or integers where floating-point numbers are wanted.
  void reshaped(const std::string& name, const at::Tensor& got, at::IntArrayRef wanted);
  // Every tensor of `wanted` is in `got` with its shape, and nothing else is.
  void compare(const Tensors& got, const Tensors& wanted);
  // UserError with the list, when there is one.
  void check(const Place& place, const std::string& hint = "") const;

 private:
  std::vector<std::string> lines_;
};

// Copies by name; what is missing, unexpected or of another shape is a UserError that lists it.
void load_weights(torch::nn::Module& module, const Tensors& weights, const std::string& file);

}  // namespace longbow
