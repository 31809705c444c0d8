#pragma once
// Small languages to be written.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/models/decoder/continuation.h"
#include "longbow/nn/layers/stack.h"
#include "tests/support/tensor.h"

namespace longbow {

constexpr int64_t kWords = 5, kEnd = 2, kRows = 997, kBegin = 1;

// A language in which what follows depends on every token before it: the tokens so far are a row of
// a table of logits. Lane b begins at row 13 (first + b).
inline const Tensor& table() {
  static const auto logits = random_normal({kRows, kWords}, 4) * 1.5;
  return logits;
}
inline int64_t following(int64_t row, int64_t token) {
  return (row * 31 + token * 7 + 3) % kRows;
}

inline Continuation language(int64_t lanes, int64_t first = 0, int64_t longest = 0) {
  return {.lanes = lanes,
          .longest = longest,
          .start =
              [=](int64_t) {
                State state;
                state.add("row", {lanes}, at::kLong);
                state.lane["row"] = at::arange(first, first + lanes) * 13;
                return state;
              },
          .next =
              [](const Tensor& tokens, const Tensor& keep, State& state) {
                auto& row = state.lane.at("row");
                for (int64_t t = 0; t < tokens.size(1); ++t) {
                  const auto after = (row * 31 + tokens.select(1, t) * 7 + 3).remainder(kRows);
                  row = keep.defined() ? at::where(keep.select(1, t), after, row) : after;
                }
                return table().index_select(0, row);
              }};
}

// A causal model of one layer: words, a block, and the words again as its head.
class TinyLanguageModel : public Part {
 public:
  explicit TinyLanguageModel(const std::string& attention) {
    const Site site = {.shape = {.width = 8, .heads = 2, .max_length = 20},
                       .path = "tiny",
                       .init = "xavier",
                       .seed = 2};
    words = parameter("words", initial_normal(site, "words", {kWords, 8}, 1));
    layers = register_module("layers", std::make_shared<Stack>(std::vector<Block>{make_block(
                                           parse_yaml(attention, "a"), site.at("layers.0"), {})}));
    to(at::kDouble);
    eval();
  }
  void start(State& state, int64_t lanes, int64_t capacity, Context& context) {
    layers->start(state, lanes, capacity, context);
  }
  Tensor extend(const Tensor& tokens, State& state, Context& context) {
    return layers->extend(at::embedding(words, tokens), state, context);
  }
  Tensor head(const Tensor& x) const { return x.matmul(words.t()); }
  Tensor words;
  std::shared_ptr<Stack> layers;
};

}  // namespace longbow
