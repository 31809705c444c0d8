#pragma once
// Three levels, each a jacket over the one below: Attention (over heads), Mixer (over tokens),
// Block (with residuals and feed-forward). A mechanism implements the lowest level that can express
// it.
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "longbow/nn/contract/linear.h"
#include "longbow/nn/contract/part.h"

namespace longbow {

// contents: what stands in a padded place is hidden, but how many there are matters (FNet).
// visible: padded tokens change real ones, as they do in a library that an option reproduces.
enum class Padding { invisible, contents, visible, refused };
constexpr std::array<std::string_view, 4> names_of(Padding) {
  return {"invisible", "contents", "visible", "refused"};
}
// rounded: exact up to rounding (FFT); frozen: exact once the discrete choices are fixed.
enum class Future { refused, exact, rounded, frozen };
constexpr std::array<std::string_view, 4> names_of(Future) {
  return {"refused", "exact", "rounded", "frozen"};
}
// How the number of operators that a training step starts grows with the length; on a GPU each is a
// kernel or a few. growing: a loop over chunks or tiles on the host.
enum class Launches { constant, logarithmic, growing };
constexpr std::array<std::string_view, 3> names_of(Launches) {
  return {"constant", "logarithmic", "growing"};
}

// What a mechanism with given options keeps to. The laws check each line; calls beyond it throw.
struct Promises {
  Padding padding = Padding::invisible;
  Future future = Future::refused;  // what a causal mask is worth
  bool bidirectional = true;
  bool cross = false;           // reads a memory of another length and width
  bool globals = false;         // honours Mask::globals
  bool decode = false;          // has a State
  bool positional = false;      // knows where tokens stand, so is not permutation equivariant
  bool rotary = false;          // has queries and keys that Site::rotary can turn
  double time = 1, memory = 1;  // exponents of N
  double causal_time = time, causal_memory = memory;
  Launches launches = Launches::constant, causal_launches = Launches::constant;
};

// A mixer's name tag: set by the table when it builds one.
struct Label {
  std::string name = "mixer";
  Promises promises = {};
  // The other mechanisms that keep a promise, for the message when this one does not.
  std::function<std::string(bool (*)(const Promises&))> others = {};
};

class MixerImpl : public Part {
 public:
  // Checks the promises, aligns ragged rows, zeroes padded queries, and calls mix.
  Tensor operator()(const Tensor& x, Context& context);  // x [B, N, C] -> [B, N, C]
  // An empty state for `lanes` sequences of up to `capacity` tokens, or any number where it is 0,
  // which rows with a state of fixed size take; a memory is read here, once, and the mask is then
  // that of the memory.
  void start(State& state, int64_t lanes, int64_t capacity, Context& context);
  // x [B, T, C]: the next tokens of each lane; context.mask.keep [B, T] says which of them are
  // real. A CPU refuses more tokens than there is room for; elsewhere asking would wait.
  Tensor extend(const Tensor& x, State& state, Context& context);

  void label(Label label) { label_ = std::move(label); }
  const Promises& promises() const { return label_.promises; }
  const std::string& name() const { return label_.name; }

 protected:
  virtual Tensor mix(const Tensor& x, Context& context) = 0;
  virtual void open(State& state, int64_t lanes, int64_t capacity, Context& context);
  virtual Tensor grow(const Tensor& x, State& state, Context& context);

 private:
  void check(const Tensor& x, const Context& context) const;
  void check_memory(const Context& context) const;
  void check_mask(const Mask& mask, int64_t rows, int64_t keys) const;
  void check_extension(const Tensor& x, const State& state, const Mask& mask) const;
  void refuse(const std::string& what, bool (*promise)(const Promises&)) const;
  Label label_;
};
using Mixer = std::shared_ptr<MixerImpl>;

// Queries, keys and values by head, with the tokens they came from: gates and controls need those.
struct Heads {
  Tensor q, k, v;    // [B, H, N, D], [B, H, M, D], [B, H, M, D]
  Tensor x, source;  // [B, N, C], [B, M, Cm]
};

// The same heads for each of several readers; on a GPU the gradients of all are summed in one pass
// (ops/shared_heads.h).
std::vector<Heads> heads_for(const Heads& heads, int64_t readers);

class AttentionImpl : public Part {
 public:
  virtual Tensor attend(const Heads& heads, Context& context) = 0;  // -> [B, H, N, D]
  virtual void open(State& state, const Heads& empty, int64_t capacity, Context& context);
  virtual Tensor grow(const Heads& heads, State& state, Context& context);
  // What a memory's keys and values come down to while decoding, sums or slots, goes into the state
  // once, and each extension then reads that with its queries alone. False where there is no such
  // form: an extension then calls attend. `memory` has no q and no x, and `queries` only these.
  virtual bool open_memory(State& state, const Heads& memory, const Context& context);
  virtual Tensor read_memory(const Heads& queries, State& state, Context& context);
};
using Attention = std::shared_ptr<AttentionImpl>;

// How what the heads read becomes tokens again.
struct Output {
  int64_t rank = 0;       // the projection goes through this width; 0 = in one step
  bool projected = true;  // false: the heads beside each other are the output, so H D = C
};

// Whether keys have a projection of their own or are the queries (Reformer).
enum class Keys { own, queries };

// A mixer with query, key, value and output projections, registered under those names (the first
// step of an output in two as output_in). Where keys are the queries, there is no key projection.
class ProjectedMixer : public MixerImpl {
 protected:
  explicit ProjectedMixer(const Site& site, const Output& output = {}, Keys keys = Keys::own);
  Tensor merged(const Tensor& heads) const;  // [B, H, N, D] -> [B, N, C]
  // Queries or keys turned by their positions where the site says so; a memory has none.
  Tensor rotated(const Tensor& heads, const Context& context) const;
  bool rotates() const { return rotary_.has_value(); }
  // The output projection for weights p that are summed over heads: merged(p v) = finished(sum_h
  // p_h outgoing(v)_h). outgoing: [B, H, R, D] -> [B, H, R, E]; E is 0 where nothing is projected.
  int64_t outgoing_width() const;
  Tensor outgoing(const Tensor& values) const;
  Tensor finished(const Tensor& y) const;  // [B, N, E] -> [B, N, C]
  int64_t heads_;
  std::shared_ptr<Linear> query_, key_, value_;

 private:
  const Linear& first_output() const { return output_in_ ? *output_in_ : *output_; }
  std::optional<Rotary> rotary_;
  std::shared_ptr<Linear> output_in_, output_;
};

// Query, key, value and output projections around an attention.
Mixer multi_head(const Site& site, Attention attention, Keys keys = Keys::own);

// [B, N, H D] <-> [B, H, N, D]; channel c belongs to head c div D.
Tensor split_heads(const Tensor& x, int64_t heads);
Tensor merge_heads(const Tensor& x);

class BlockImpl : public Part {
 public:
  virtual Tensor forward(const Tensor& x, Context& context) = 0;
  virtual void start(State& state, int64_t lanes, int64_t capacity, Context& context) = 0;
  virtual Tensor extend(const Tensor& x, State& state, Context& context) = 0;
  // What the block adds to its first (0) or second (1) stream; null where it is not reversible.
  using Branch = std::function<Tensor(int, const Tensor&, Context&)>;
  virtual Branch branch() { return {}; }
};
using Block = std::shared_ptr<BlockImpl>;

}  // namespace longbow
