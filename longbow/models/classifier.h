#pragma once
#include "longbow/models/encoder.h"

namespace longbow {

enum class Pooling { mean, first, max, none };
constexpr std::array<std::string_view, 4> names_of(Pooling) {
  return {"mean", "first", "max", "none"};
}

struct ClassifierConfig {
  EncoderConfig encoder = {};
  Pooling pooling = Pooling::mean;
  int64_t head = 0;
};
template <class V>
void fields(V& v, ClassifierConfig& c) {
  fields(v, c.encoder);
  v("pooling", c.pooling, "of the tokens before the head; none = a class for every token");
  v("head", c.head, "width of a hidden layer in the head; 0 = none", at_least(0));
}

// An encoder and a head: [B, N] -> [B, classes], or [B, N, classes] without pooling.
class Classifier : public Part {
 public:
  Classifier(const ClassifierConfig& config, int64_t vocabulary, int64_t classes, uint64_t seed);
  Tensor operator()(const Tensor& tokens, Context& context);

 private:
  ClassifierConfig config_;
  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<Linear> hidden_, output_;
};

// Over real tokens only; a row without any gives zeros.
Tensor pooled(const Tensor& x, const Tensor& keep, Pooling pooling);

}  // namespace longbow
