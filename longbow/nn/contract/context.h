#pragma once
// What flows beside the tokens through a layer: the mask, the memory, positions, randomness,
// recorded choices, and the state of a sequence that grows.
//
// Dimension letters, here and everywhere: B batch, N queries, M keys, H heads, D head width, C
// model width, R rank (slots, features), W window, V vocabulary, T tokens of one extension.
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "longbow/ops/dropout.h"
#include "longbow/tensors/module_weights.h"

namespace longbow {

using at::Tensor;

// Who may read whom: a rule, never an N x M matrix. True means "may", "is there".
struct Mask {
  bool causal = false;  // key j is visible to query i when j <= i + (M - N): aligned at the end
  bool ragged =
      false;  // real tokens may stand anywhere (left padding, holes); the mixer aligns the rows
  Tensor keep = {};        // [B, M] bool, true = a real key; undefined = all
  Tensor query_keep = {};  // [B, N] bool; undefined: as `keep` in self-attention, else all
  Tensor globals = {};     // [B, G] positions of tokens that see and are seen by all, -1 = unused

  static Mask from_lengths(const Tensor& lengths, int64_t longest);  // real tokens first
  static Mask from_keep(const Tensor& keep);                         // anywhere: ragged
};

// Numbers as a function of (seed, step, site, element), not of a generator's history:
// recomputation, captured graphs and resumed runs draw the same ones. Without a key nothing may be
// drawn.
struct Random {
  Tensor key = {};  // [2] int64 on the device: seed, step
  static Random from_seed(uint64_t seed, int64_t step = 0, at::Device device = at::kCPU);
  Tensor uniform(at::IntArrayRef shape, const std::string& site) const;  // float32 in [0, 1)
  Tensor normal(at::IntArrayRef shape, const std::string& site) const;   // float32
  // out [G, R, C] float32 becomes a window of uniform({G, rows, columns}, site), from row and
  // column on: a tile of a draw that is never stored as a whole.
  void uniform_window(Tensor& out, int64_t rows, int64_t columns, int64_t row, int64_t column,
                      const std::string& site) const;
};

// Discrete choices (buckets, members, top-k): computed, recorded for a test, or replayed.
struct Choices {
  enum class Mode { compute, record, replay } mode = Mode::compute;
  Tensors kept = {};
  Tensor pick(const std::string& key, const std::function<Tensor()>& make);
};

// A tensor of a state by its name behind those of the children it stands in, and what an empty lane
// holds there.
struct StateTensor {
  std::string name;
  Tensor* tensor;
  double empty = 0;
};

// What a layer remembers of the tokens it has seen: one flow for decoding and for segment
// recurrence. Any split of a sequence into extensions equals the forward pass. Every lane tensor
// has the batch first.
struct State {
  Tensors lane;
  std::map<std::string, double> fill;  // what an empty lane holds
  Tensor seen;                         // [B] int64, real tokens so far
  int64_t capacity = 0;                // tokens of a lane that there is room for; 0 = not known
  std::map<std::string, State> child;  // one per layer, for a stack

  Tensor& add(const std::string& name, at::IntArrayRef shape, const at::TensorOptions& options,
              double empty = 0);
  void reorder(const Tensor& beams);  // [B'] int64: lane b becomes what lane beams[b] was
  void reset(const Tensor& lanes);    // [B] bool: these lanes start anew
  void detach();                      // cuts the gradient between segments

  // All of them, `seen` and those of children too.
  std::vector<StateTensor> tensors(const std::string& prefix = "");
  // Gives every tensor memory of its own, where it then stays as long as values are put there.
  void settle();
  // The first lanes become those of `state`, which has as many or fewer; without a gradient.
  void put(const State& state);
};

struct Context {
  Mask mask = {};
  Tensor memory = {};  // [B, M, Cm]: what is attended to, when it is not x itself
  // For a block that reads its tokens and a memory both; the mask is then that of the tokens.
  Tensor memory_keep = {};     // [B, M] bool: real rows of the memory; undefined = all
  bool memory_ragged = false;  // they may stand anywhere
  Tensor positions = {};       // [B, N] int64, counted over real tokens; undefined = from the mask
  Tensor segments = {};        // [B, N] int64: which part of the input a token is of; undefined = 0
  Random random = {};
  Tensors carry = {};  // from layer to layer, differentiable
  Tensor loss = {};    // from a module to the training loss
  Choices* choices = nullptr;
  Tensors* maps = nullptr;  // attention maps by layer path, when somebody wants to look
  bool recomputing = false;

  Tensor pick(const std::string& key, const std::function<Tensor()>& make) const;
  void add_loss(const Tensor& term);
};

// The type in which sums over tokens are kept: float32 at least.
at::ScalarType wide(const Tensor& x);

// x [B, N, C] with zeros in the rows of padded tokens; keep [B, N], undefined = all are real.
Tensor zero_where_padded(const Tensor& x, const Tensor& keep);

// Places of real tokens in each row, counted from 0 (a padded token repeats the count before it).
Tensor positions_of(const Tensor& x, const Context& context);  // [B, N] int64

// Elements kept with probability 1 - rate and rescaled; x itself when not training or when rate is
// 0.
Tensor dropout(const Tensor& x, double rate, bool training, const Context& context,
               const std::string& site);
// Which elements it drops.
Drop drop_of(double rate, bool training, const Context& context, const std::string& site);

}  // namespace longbow
