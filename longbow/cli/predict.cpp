#include <fmt/format.h>

#include <algorithm>

#include "longbow/cli/asking.h"

namespace longbow::cli {
namespace {

// The first samples of a data set.
class First final : public Dataset {
 public:
  First(const Dataset& all, int64_t count) : all_(all), count_(std::min(count, all.size())) {}
  int64_t size() const override { return count_; }
  int64_t length(int64_t i) const override { return all_.length(i); }
  Sample get(int64_t i) const override { return all_.get(i); }
  bool per_token() const override { return all_.per_token(); }
  int64_t targets() const override { return all_.targets(); }
  int64_t values() const override { return all_.values(); }
  bool has_second() const override { return all_.has_second(); }
  bool has_segments() const override { return all_.has_segments(); }

 private:
  const Dataset& all_;
  int64_t count_;
};

std::string shown(const Node& value) {
  if (value.is_null()) return "-";
  if (!value.is_list()) return value.text;
  std::string text;
  for (const auto& item : value.items) text += (text.empty() ? "" : " ") + shown(item);
  return text;
}

// Column by column, with TABs between them.
std::string shown_line(const Node& prediction) {
  std::string line;
  for (const auto& [name, value] : prediction.entries)
    line += (line.empty() ? "" : "\t") + shown(value);
  return line;
}

}  // namespace

int run(const PredictCommand& command) {
  const bool own = !command.split.empty();
  if (own) check_split(command.split);
  if (own && !command.file.empty())
    throw UserError(Place{"--split", 0}, "--file is given too", "leave one of them out");
  const auto opened = open_for("predict", command.folder, command.device);
  auto& task = *opened.task;
  const auto whole = own ? std::shared_ptr<const Dataset>() : [&] {
    auto lines = input_lines(command.file.empty() ? "-" : command.file);
    return inputs_of(task, lines);
  }();
  const auto& asked = own ? split_of(task, command.split) : *whole;
  const First data(asked, command.limit > 0 ? command.limit : asked.size());
  // The batches and draws of an evaluation, so that its metrics are those of what is shown.
  const auto& trained = opened.config.train.sampler;
  const auto sampler = own ? trained : as_trained(trained, task.texts().longest);
  std::vector<Node> all(static_cast<size_t>(data.size()));
  for_batches(task, data, sampler, /*seed=*/0,
              [&](const Batch& batch, const std::vector<int64_t>& indices, const Random& random) {
                auto said = task.predict(own ? task.posed(batch, random) : batch, random);
                for (size_t row = 0; row < indices.size(); ++row)
                  all[static_cast<size_t>(indices[row])] = std::move(said[row]);
              });
  for (const auto& prediction : all)
    fmt::print("{}\n", command.json ? to_json(prediction) : shown_line(prediction));
  return 0;
}

}  // namespace longbow::cli
