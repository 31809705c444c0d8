#pragma once
#include <vector>

#include "longbow/models/encoder/encoder.h"
#include "longbow/models/encoder/pooling.h"
#include "longbow/nn/contract/linear.h"

namespace longbow {

struct ClassifierConfig {
  EncoderConfig encoder = {};
  Pooling pooling = Pooling::mean;
  int64_t seeds = 1;
  bool pooler = false;
  int64_t head = 0, head_layers = 1;
};
template <class V>
void fields(V& v, ClassifierConfig& c) {
  fields(v, c.encoder);
  v("pooling", c.pooling,
    "how token outputs are combined before the head; attention uses one learned query, pma an "
    "attention block of learned seeds, class_token a learned token before all others; none = one "
    "output per token, for data with a target for each token");
  v("seeds", c.seeds, "pooling pma: learned seeds, whose rows the head reads side by side",
    range(1, 1024));
  v("pooler", c.pooler,
    "a linear layer and tanh after the pooling; with `pooling: first` it is BERT's");
  v("head", c.head, "width of a hidden layer in the head; 0 = none", at_least(0));
  v("head_layers", c.head_layers,
    "hidden layers in the head, if it has one; each is half as wide as the one before it",
    range(1, 16));
}

// UserError where the encoder is wrong, or where it cannot be read as the pooling asks.
void check_classifier(const ClassifierConfig& config, const Node& tree);
// UserError when the model does not give one row a sample.
void check_one_row(const ClassifierConfig& config, const Node& tree);

// What every classifier is made of: an encoder, a pooler over its tokens, and the layers of the
// head.
class ClassifierBase : public Part {
 protected:
  // The head reads `rows` pooled rows side by side.
  ClassifierBase(const ClassifierConfig& config, int64_t vocabulary, int64_t classes, uint64_t seed,
                 int64_t rows = 1);
  Tensor encoded(const Tensor& tokens, Context& context);  // [B, N] -> [B, S C], or [B, N, C]
  Tensor answered(const Tensor& x) const;                  // [..., rows S C] -> [..., classes]

 private:
  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<Pooler> pooler_;
  std::vector<std::shared_ptr<Linear>> hidden_;
  std::shared_ptr<Linear> output_;
  Tensor class_token_;  // [1, C], or undefined
};

// [B, N] -> [B, classes], or [B, N, classes] without pooling.
class Classifier : public ClassifierBase {
 public:
  Classifier(const ClassifierConfig& config, int64_t vocabulary, int64_t classes, uint64_t seed);
  Tensor operator()(const Tensor& tokens, Context& context);
};

}  // namespace longbow
