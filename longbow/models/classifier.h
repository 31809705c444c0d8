#pragma once
#include "longbow/models/encoder.h"
#include "longbow/models/pooling.h"

namespace longbow {

struct ClassifierConfig {
  EncoderConfig encoder = {};
  Pooling pooling = Pooling::mean;
  bool pooler = false;
  int64_t head = 0;
};
template <class V>
void fields(V& v, ClassifierConfig& c) {
  fields(v, c.encoder);
  v("pooling", c.pooling,
    "of the tokens before the head; attention reads them with one learned query; none = an answer "
    "for every token, which data with a target for each token needs");
  v("pooler", c.pooler,
    "a linear layer and tanh behind the pooling; with `pooling: first` it is BERT's");
  v("head", c.head, "width of a hidden layer in the head; 0 = none", at_least(0));
}

// An encoder and a head: [B, N] -> [B, classes], or [B, N, classes] without pooling.
class Classifier : public Part {
 public:
  Classifier(const ClassifierConfig& config, int64_t vocabulary, int64_t classes, uint64_t seed);
  Tensor operator()(const Tensor& tokens, Context& context);

 private:
  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<Pooler> pooler_;
  std::shared_ptr<Linear> hidden_, output_;
};

}  // namespace longbow
