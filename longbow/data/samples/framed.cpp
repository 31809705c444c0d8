#include "longbow/data/samples/framed.h"

#include <algorithm>
#include <stdexcept>

namespace longbow {
namespace {

class Framed final : public Dataset {
 public:
  Framed(std::shared_ptr<const Dataset> bare, const Frame& frame)
      : bare_(std::move(bare)), frame_(frame) {
    if (bare_->per_token() || bare_->has_segments())
      throw std::invalid_argument("samples with something for every token cannot be framed");
  }
  int64_t size() const override { return bare_->size(); }
  int64_t length(int64_t i) const override { return bare_->length(i) + frame_.tokens(); }
  int64_t targets() const override { return bare_->targets(); }
  int64_t values() const override { return bare_->values(); }
  bool has_second() const override { return bare_->has_second(); }
  Sample get(int64_t i) const override {
    auto sample = bare_->get(i);
    frame_around(sample.tokens);
    if (has_second()) frame_around(sample.second);
    return sample;
  }

 private:
  void frame_around(std::vector<int32_t>& tokens) const {
    if (frame_.first > 0) tokens.insert(tokens.begin(), static_cast<int32_t>(frame_.first));
    if (frame_.last > 0) tokens.push_back(static_cast<int32_t>(frame_.last));
  }
  std::shared_ptr<const Dataset> bare_;
  Frame frame_;
};

}  // namespace

std::shared_ptr<const Dataset> framed(std::shared_ptr<const Dataset> data, const Frame& frame) {
  if (frame.tokens() == 0) return data;
  return std::make_shared<Framed>(std::move(data), frame);
}

Splits framed(Splits splits) {
  for (auto* split : {&splits.train, &splits.valid, &splits.test})
    *split = framed(*split, splits.frame);
  splits.max_length += splits.frame.tokens();
  return splits;
}

}  // namespace longbow
