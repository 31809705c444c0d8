#include <fmt/format.h>

#include "longbow/cli/asking.h"
#include "longbow/cli/dialogue.h"
#include "longbow/core/seed.h"
#include "longbow/tasks/prediction.h"

namespace longbow::cli {
namespace {

struct Prompts {
  std::shared_ptr<const Dataset> data;
  std::vector<std::string> texts;
  std::vector<Place> places;
};

// As many beginnings as wanted: the token that begins a text, or the first one of random samples.
Prompts beginnings(const Task& task, const GenerateCommand& command) {
  const auto texts = task.texts();
  const auto& data = *task.splits().train;
  const Stream stream(command.seed, "generate");
  std::vector<Sample> samples;
  Prompts prompts;
  for (int64_t i = 0; i < command.count; ++i) {
    auto draw = stream.at(static_cast<uint64_t>(i));
    const int64_t id = texts.begin > 0 ? texts.begin : data.get(draw.below(data.size())).tokens[0];
    samples.push_back({.tokens = {static_cast<int32_t>(id)}});
    prompts.texts.push_back(texts.begin > 0 ? "" : texts.written.text({&id, 1}));
    prompts.places.push_back({"--max-length", 0});
  }
  prompts.data = longbow::inputs_of(task, std::move(samples));
  return prompts;
}

Prompts prompts_of(const Task& task, const std::vector<Line>& lines) {
  Prompts prompts = {.data = inputs_of(task, lines), .texts = {}, .places = {}};
  for (const auto& line : lines) {
    prompts.texts.push_back(line.text);
    prompts.places.push_back(line.place);
  }
  return prompts;
}

void check_flags(const GenerateCommand& command) {
  if (command.prompt && !command.file.empty())
    throw UserError(Place{"--prompt", 0}, "--file is given too", "leave one of them out");
  if ((command.prompt || !command.file.empty()) && command.count != 1)
    throw UserError(Place{"--count", 0}, "says how many texts to begin, but there is a prompt",
                    "--method sample with --n-best writes several for each");
}

void check_room(const Prompts& prompts, const DecodingConfig& how, int64_t holds) {
  for (int64_t i = 0; i < prompts.data->size(); ++i)
    if (const auto room = holds - prompts.data->length(i) + 1; how.max_length > room)
      throw UserError(prompts.places[static_cast<size_t>(i)],
                      fmt::format("{} tokens to be written behind {}, but there is room for {}",
                                  how.max_length, prompts.data->length(i), room),
                      "lower --max-length, or train with a larger model.max_length");
}

void show(const std::string& prompt, const std::vector<Written>& written, bool json) {
  if (json)
    fmt::print("{}\n",
               to_json(Node::map({{"prompt", Node::string(prompt)}, {"texts", list_of(written)}})));
  else
    for (const auto& text : written)
      fmt::print("{}{}{}\n", prompt, prompt.empty() || text.text.empty() ? "" : " ", text.text);
}

}  // namespace

int run(const GenerateCommand& command) {
  check_flags(command);
  const auto opened = open_for("generate", command.folder, command.device);
  auto& task = *opened.task;
  const auto how = decoding_with(task, command.decoding);
  const auto write = [&](const Prompts& prompts, uint64_t seed) {
    check_room(prompts, how, task.texts().holds);
    // Prompts of one length only: the room behind a prompt is what its own length leaves.
    const SamplerConfig sampler = {.batch_size = command.batch_size, .bucket = 1};
    const auto all = write_all(task, *prompts.data, sampler, how, seed);
    for (size_t i = 0; i < all.size(); ++i) show(prompts.texts[i], all[i], command.json);
  };
  if (is_typed(command.file)) {
    converse(opened, /*limit=*/0, [&](const Line& line) {
      write(prompts_of(task, {line}), typed_seed(command.seed, line));
    });
    return 0;
  }
  if (command.prompt)
    write(prompts_of(task, {{*command.prompt, {"--prompt", 0}}}), command.seed);
  else
    write(command.file.empty() ? beginnings(task, command)
                               : prompts_of(task, input_lines(command.file)),
          command.seed);
  return 0;
}

}  // namespace longbow::cli
