#include "longbow/predict/predictions.h"

#include <algorithm>

#include "longbow/data/samples/text_codec.h"
#include "longbow/predict/batches.h"
#include "longbow/tasks/prediction.h"

namespace longbow::predict {
namespace {

// The first samples of a data set.
class First final : public Dataset {
 public:
  First(std::shared_ptr<const Dataset> all, int64_t count)
      : all_(std::move(all)), count_(std::min(count, all_->size())) {}
  int64_t size() const override { return count_; }
  int64_t length(int64_t i) const override { return all_->length(i); }
  Sample get(int64_t i) const override { return all_->get(i); }
  bool per_token() const override { return all_->per_token(); }
  int64_t targets() const override { return all_->targets(); }
  int64_t values() const override { return all_->values(); }
  bool has_second() const override { return all_->has_second(); }
  bool has_segments() const override { return all_->has_segments(); }

 private:
  std::shared_ptr<const Dataset> all_;
  int64_t count_;
};

Node with_input(const std::string& input, Node prediction) {
  prediction.entries.insert(prediction.entries.begin(), {"input", Node::string(input)});
  return prediction;
}

// An answer as it is written in its context, which follows a TAB: tokens may have lost what a
// normalizer drops.
void quote_answer(Node& said, const Line& line, const Symbols& symbols) {
  const auto *first = said.find("first"), *last = said.find("last");
  const auto tab = line.text.find('\t');
  if (!said.find("answer") || !first || !last || !symbols.codec() || tab == std::string::npos)
    return;
  const auto context = std::string_view(line.text).substr(tab + 1);
  const auto offsets = symbols.codec()->offsets(context);
  const auto place = [&](const Node* node) {
    return static_cast<size_t>(std::clamp<int64_t>(as_integer(*node, "place"), 0,
                                                   std::max<int64_t>(std::ssize(offsets) - 1, 0)));
  };
  if (offsets.empty()) return;
  const auto from = offsets[place(first)].begin, to = offsets[place(last)].end;
  said["answer"] = Node::string(std::string(context.substr(from, to - from)));
}

}  // namespace

std::vector<Node> predictions_of(Task& task, const std::vector<Line>& lines,
                                 const SamplerConfig& trained) {
  const auto data = inputs_of(task, lines);
  const auto symbols = task.texts().read;
  std::vector<Node> all(lines.size());
  for_batches(task, *data, as_trained(trained, task.texts().longest), /*seed=*/0,
              [&](const Batch& batch, const std::vector<int64_t>& indices, const Random& random) {
                auto said = task.predict(batch, random);
                for (size_t row = 0; row < indices.size(); ++row) {
                  const auto i = static_cast<size_t>(indices[row]);
                  quote_answer(said[row], lines[i], symbols);
                  all[i] = with_input(lines[i].text, std::move(said[row]));
                }
              });
  return all;
}

std::vector<Node> predictions_of(Task& task, std::shared_ptr<const Dataset> split,
                                 const SamplerConfig& trained, int64_t limit) {
  const First data(split, limit > 0 ? limit : split->size());
  std::vector<Node> all(static_cast<size_t>(data.size()));
  for_batches(task, data, trained, /*seed=*/0,
              [&](const Batch& batch, const std::vector<int64_t>& indices, const Random& random) {
                const auto corrupted = task.corrupt(batch, random);
                auto said = task.predict(corrupted, random);
                for (size_t row = 0; row < indices.size(); ++row)
                  all[static_cast<size_t>(indices[row])] = with_input(
                      input_text(task, corrupted, static_cast<int64_t>(row)), std::move(said[row]));
              });
  return all;
}

}  // namespace longbow::predict
