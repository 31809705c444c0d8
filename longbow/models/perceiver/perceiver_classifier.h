#pragma once
#include "longbow/models/perceiver/perceiver.h"
#include "longbow/nn/contract/linear.h"

namespace longbow {

// What asks the latents for an output at every token.
enum class OutputQueries { tokens, positions };
constexpr std::array<std::string_view, 2> names_of(OutputQueries) {
  return {"tokens", "positions"};
}

struct PerceiverOutputConfig {
  OutputQueries queries = OutputQueries::tokens;
  int64_t width = 0;
  bool residual = true;
  CrossConfig cross = {};
};
template <class V>
void fields(V& v, PerceiverOutputConfig& c) {
  v("queries", c.queries,
    "what reads the latents: the rows of the tokens, as the latents read them, or a learned row of "
    "each position");
  v("width", c.width, "positions: width of a query; 0 = the model width", range(0, 65536));
  v("residual", c.residual, "add a query to what it reads");
  fields(v, c.cross);
}

struct PerceiverClassifierConfig : PerceiverConfig {
  PerceiverOutputConfig output = {};

  int64_t query_width() const;
};
template <class V>
void fields(V& v, PerceiverClassifierConfig& c) {
  fields(v, static_cast<PerceiverConfig&>(c));
  v("output", c.output,
    "the cross-attention from output queries to the latents, for data with a target for each "
    "token");
}

void check_perceiver_classifier(const PerceiverClassifierConfig& config, const Node& tree);

// One answer a sequence, Linear(LN(mean over the latents)): [B, M] -> [B, classes]. Or, with
// Perceiver IO's decoder, one a token: queries read the latents, [B, M] -> [B, M, classes].
class PerceiverClassifier : public Part {
 public:
  PerceiverClassifier(const PerceiverClassifierConfig& config, int64_t vocabulary, int64_t classes,
                      bool per_token, uint64_t seed);
  Tensor operator()(const Tensor& tokens, Context& context);

 private:
  Tensor asked(const Tensor& tokens, const Tensor& x, const Tensor& z, Context& context) const;
  std::shared_ptr<PerceiverInput> input_;
  std::shared_ptr<Perceiver> perceiver_;
  Tensor queries_;                       // [max_length, width] or undefined
  std::shared_ptr<CrossLayer> decoder_;  // where there is an answer for each token
  std::shared_ptr<LayerNorm> norm_;      // where there is not
  std::shared_ptr<Linear> output_;
};

}  // namespace longbow
