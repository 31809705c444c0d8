#pragma once
// Where a layer is being built, how its parameters start, and which of them it shares with other
// layers.
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "longbow/nn/contract/rotary.h"

namespace longbow {

struct Shape {
  int64_t width = 0;               // C
  int64_t heads = 1;               // H
  int64_t head_width = 0;          // D; 0 = width / heads. H D need not be C
  int64_t max_length = 0;          // longest sequence of queries and, without a memory, of keys
  int64_t memory_width = 0;        // Cm; 0 = width
  int64_t memory_length = 0;       // longest memory; 0 = max_length
  std::vector<int64_t> grid = {};  // sides of an image, when the tokens are one

  int64_t head() const { return head_width > 0 ? head_width : width / heads; }
  int64_t inner() const { return heads * head(); }
  int64_t source_width() const { return memory_width > 0 ? memory_width : width; }
  int64_t source_length() const { return memory_length > 0 ? memory_length : max_length; }
};

// Parameters that several layers read (Linformer's layerwise projection, Luna's packed sequence).
// The stack owns and registers them once; a layer holds a handle.
class Shared : public torch::nn::Module {
 public:
  Tensor parameter(const std::string& key, at::IntArrayRef shape,
                   const std::function<Tensor()>& make);
  // The same for what is saved but not learned.
  Tensor buffer(const std::string& key, at::IntArrayRef shape, const std::function<Tensor()>& make);
  // What other mixers of the same layers share among themselves: the same keys are other tensors.
  std::shared_ptr<Shared> child(const std::string& name);
};

struct Site {
  Shape shape = {};
  std::string path = "";      // of the layer in the model, for initial values and random sites
  std::string init = "bert";  // bert, xavier, lra, paper
  bool bias = true;           // on the projections of an attention
  int64_t layer = 0, layers = 1;
  bool cross = false;                 // built to read a memory
  std::optional<Rotary> rotary = {};  // how queries and keys learn their positions, if so
  uint64_t seed = 0;
  std::shared_ptr<Shared> shared = {};

  // Of what keys and values are made of: the memory, or the tokens themselves.
  int64_t source_width() const { return cross ? shape.source_width() : shape.width; }
  int64_t source_length() const { return cross ? shape.source_length() : shape.max_length; }
  Site at(const std::string& name) const;  // the same site one name further down
};

// Initial values: a function of (seed, path, name), so building one layer more or less changes no
// other.
Tensor initial_normal(const Site& site, const std::string& name, at::IntArrayRef shape,
                      double deviation);
// The same as a parameter of the whole stack: drawn once, whichever layer asks first.
Tensor shared_normal(const Site& site, const std::string& key, at::IntArrayRef shape,
                     double deviation);
Tensor initial_uniform(const Site& site, const std::string& name, at::IntArrayRef shape,
                       double bound);
// A matrix [out, in] as site.init says; `paper` is what the mechanism's paper does, Xavier uniform
// unless the mechanism initialises by hand.
Tensor initial_matrix(const Site& site, const std::string& name, int64_t out, int64_t in);

}  // namespace longbow
