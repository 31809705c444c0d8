#pragma once
// A model that continues texts, what they begin with, how they are to be written, and what comes of
// it.
#include <array>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "longbow/core/fields.h"
#include "longbow/nn/contract/context.h"

namespace longbow {

enum class DecodingMethod { greedy, beam, sample };
constexpr std::array<std::string_view, 3> names_of(DecodingMethod) {
  return {"greedy", "beam", "sample"};
}
enum class LengthPenalty { gnmt, plain };
constexpr std::array<std::string_view, 2> names_of(LengthPenalty) {
  return {"gnmt", "plain"};
}

struct DecodingConfig {
  DecodingMethod method = DecodingMethod::greedy;
  int64_t max_length = 0, min_length = 0, n_best = 1;
  int64_t beams = 4;
  LengthPenalty penalty = LengthPenalty::gnmt;
  double length_penalty = 0;
  bool early_stopping = true;
  double temperature = 1, top_p = 1;
  int64_t top_k = 0;
  bool graphs = true;
};
template <class V>
void fields(V& v, DecodingConfig& c) {
  v("method", c.method,
    "the most probable token at each step, beam search, or a token drawn at random");
  v("max_length", c.max_length,
    "largest number of tokens to generate, including the end; 0 = what the model can take",
    at_least(0));
  v("min_length", c.min_length, "smallest number of tokens to generate before the end",
    at_least(0));
  v("n_best", c.n_best, "texts to keep: the best of a beam, or independent samples",
    range(1, 1024));
  v("beams", c.beams, "hypotheses that beam search keeps", range(1, 1024));
  v("penalty", c.penalty,
    "log-probabilities are divided by ((5 + length) / 6)^alpha, or by length^alpha");
  v("length_penalty", c.length_penalty, "alpha of `penalty`; 0 = no penalty", range(0, 10));
  v("early_stopping", c.early_stopping,
    "beam search ends with as many finished texts as beams; false: when no other text can become "
    "better");
  v("temperature", c.temperature, "sample: logits are divided by it", range(1e-6, 1e6));
  v("top_k", c.top_k, "sample: among the k most probable tokens; 0 = all", at_least(0));
  v("top_p", c.top_p, "sample: among the fewest tokens whose probabilities reach this sum",
    range(1e-6, 1));
  v("graphs", c.graphs, "on a GPU, capture the step from one token to the next and replay it");
}
// UserError where the options contradict each other; `tree` is where they were read from.
void check_decoding(const DecodingConfig& config, const Node& tree);

// What decoding needs of a model: B texts to be continued.
struct Continuation {
  int64_t lanes = 0, longest = 0;  // B; tokens that a lane can hold, 0 = any number
  // A state of B lanes that hold nothing yet, with room for `capacity` tokens.
  std::function<State(int64_t capacity)> start;
  // Tokens [L, T] are added to the lanes; where keep [L, T] is defined only those it marks, first
  // ones first. Gives the logits [L, V] of what comes next.
  std::function<Tensor(const Tensor& tokens, const Tensor& keep, State& state)> next;
};

// Rows x [L, T, C] of the last real tokens: [L, C].
Tensor last_rows(const Tensor& x, const Tensor& keep);

// Of a model with start(state, lanes, capacity, context) and extend(tokens [L, T], state, context)
// -> [L, T, C], and the head that makes logits of that. `opening` is what the model starts with: a
// decoder finds its memory there.
template <class Model>
Continuation continuation_of(const std::shared_ptr<Model>& model,
                             const std::function<Tensor(const Tensor&)>& head, int64_t lanes,
                             int64_t longest, const Context& opening = {}) {
  return {.lanes = lanes,
          .longest = longest,
          .start =
              [=](int64_t capacity) {
                State state;
                Context context = opening;
                model->start(state, lanes, capacity, context);
                return state;
              },
          .next =
              [=](const Tensor& tokens, const Tensor& keep, State& state) {
                Context context = {.mask = {.keep = keep}, .random = opening.random};
                return head(last_rows(model->extend(tokens, state, context), keep));
              }};
}

// The same model, which never writes these tokens.
Continuation without(const Continuation& model, const std::vector<int64_t>& ids);

// What every text begins with: [B, T] and, where they differ in length, [B, T] bool.
struct Prompt {
  Tensor tokens, keep = {};
  static Prompt begin(int64_t lanes, int64_t id, at::Device device);  // one token, the same for all
};

struct Decoded {
  Tensor tokens;   // [B, n, L] int64 without the prompt, 0 behind the end
  Tensor lengths;  // [B, n] int64, the end included; 0 where there are fewer texts than wanted
  Tensor scores;   // [B, n], falling: log-probability over length penalty
};

}  // namespace longbow
