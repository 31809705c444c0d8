#pragma once
#include "longbow/nn/contract/mixer.h"
#include "longbow/ops/block_rule.h"

namespace longbow {

// Softmax over the last dimension of what is visible, in at least float32. A row that sees nothing
// is zero, and so is its gradient: hidden is a selection, never a large negative number.
Tensor masked_softmax(const Tensor& scores, const Tensor& visible);

// [B, 1, 1, M] from keep [B, M]: what all queries may read. Undefined = all.
Tensor visible_keys(const Tensor& keep);

// [1 or B, 1, N, M] bool from the rule: the quadratic form, for formulas and oracles. Undefined =
// all visible.
Tensor visible_pairs(const Mask& mask, int64_t queries, int64_t keys, at::Device device);

// What is added to the scores of slots [B, H, R, D] that all queries see alike: the bias [B, H, R],
// and -infinity where visible [1 or B, 1 or H, 1, R] is false. Undefined = nothing.
Tensor slot_bias(const Tensor& slots, const Tensor& bias, const Tensor& visible);

// masked_softmax(q k^T) v with dropout on the weights, as the formula stands, or by fused kernels
// where those can do it; q is scaled already.
// The weights go to context.maps under `path`, when somebody wants to look.
struct Weighing {
  double dropout = 0;
  bool training = false;
  std::string path = "";
};
// What block_softmax has to know of the weights that are dropped.
DroppedWeights dropped_weights(const Weighing& weighing, const Context& context);
Tensor softmax_read(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible,
                    const Weighing& weighing, Context& context);
// The same from scores that have more to them than q k^T.
Tensor softmax_read(const Tensor& scores, const Tensor& v, const Tensor& visible,
                    const Weighing& weighing, Context& context);

// softmax(q k^T scale) v by fused kernels: no N x M tensor is stored. Those of LibTorch, except
// where ours are faster, or where LibTorch's would want an N x M mask.
enum class FusedKernels { fastest, libtorch };
Tensor fused_attention(const Heads& heads, const Mask& mask, double scale,
                       FusedKernels kernels = FusedKernels::fastest);

// Keys and values of all tokens seen so far, one slot more than the capacity: padded tokens are
// written there.
void open_cache(State& state, const Heads& empty, int64_t capacity);
struct Cached {
  Tensor k, v;     // [B, H, capacity + 1, D]
  Tensor visible;  // [B, 1, T, capacity + 1] bool
};
Cached grow_cache(const Heads& heads, State& state, const Context& context);

// Where the tokens of an extension stand; `elsewhere` for padded ones. [B, T]
Tensor slots_of(const Heads& heads, const Context& context, int64_t elsewhere);

// Runs an extension in pieces of at most `most` tokens, so that a long one needs no more memory
// than that.
Tensor in_pieces(const Heads& heads, const Context& context, int64_t most,
                 const std::function<Tensor(const Heads&, Context&)>& body);

// Writes rows [B, H, T, D] into the slots [B, T] of a lane [B, H, slots, D].
void write_slots(Tensor& lane, const Tensor& slots, const Tensor& rows);

}  // namespace longbow
