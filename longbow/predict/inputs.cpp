#include "longbow/predict/inputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "longbow/tasks/prediction.h"

namespace longbow::predict {
namespace {

std::vector<int32_t> sequence_of(std::string_view text, const Symbols& symbols,
                                 const Place& place) {
  auto tokens = symbols.read(text, place);
  if (tokens.empty()) throw UserError(place, "there are no tokens", "a line is one input");
  return tokens;
}

Sample sample_of(const Line& line, const Texts& texts) {
  const auto tab = line.text.find('\t');
  const bool two = tab != std::string::npos;
  if (texts.pairs != two || (two && line.text.find('\t', tab + 1) != std::string::npos))
    throw UserError(line.place, two ? "a TAB too many" : "there is no TAB",
                    texts.pairs ? "an input is two sequences with a TAB between them"
                                : "an input is one sequence");
  Sample sample = {.tokens = sequence_of(line.text.substr(0, tab), texts.read, line.place)};
  if (two) sample.second = sequence_of(line.text.substr(tab + 1), texts.read, line.place);
  if (texts.hidden > 0 && std::ranges::find(sample.tokens, texts.hidden) == sample.tokens.end())
    throw UserError(line.place, "there is nothing to guess",
                    "write " + texts.read.text({&texts.hidden, 1}) + " for it");
  return sample;
}

}  // namespace

std::shared_ptr<const Dataset> inputs_of(const Task& task, const std::vector<Line>& lines) {
  const auto texts = task.texts();
  std::vector<Sample> samples;
  for (const auto& line : lines) samples.push_back(sample_of(line, texts));
  auto data = longbow::inputs_of(task, std::move(samples));
  for (int64_t i = 0; i < data->size(); ++i)
    if (data->length(i) > texts.longest)
      throw UserError(
          lines[static_cast<size_t>(i)].place,
          fmt::format("{} tokens, but the model holds {}", data->length(i), texts.longest),
          "shorten the line, or train with a larger model.max_length");
  return data;
}

}  // namespace longbow::predict
