#include <fmt/format.h>

#include "longbow/cli/asking.h"

namespace longbow::cli {
namespace {

void check_room(const DecodingConfig& how, int64_t holds) {
  if (how.max_length > holds)
    throw UserError(Place{"--max-length", 0},
                    fmt::format("{} tokens, but the decoder holds {}", how.max_length, holds),
                    "lower it, or train with a larger model.decoder.max_length");
}

void show(const std::vector<Line>& lines, size_t i, const std::vector<Written>& written,
          bool several) {
  for (const auto& one : written)
    if (several)
      fmt::print("{} ||| {} ||| {:.4f}\n", lines[i].place.line, one.text, one.score);
    else
      fmt::print("{}\n", one.text);
}

}  // namespace

int run(const TranslateCommand& command) {
  const auto opened = open_for("translate", command.folder, command.device);
  auto& task = *opened.task;
  const auto how = decoding_with(task, command.decoding);
  const auto texts = task.texts();
  check_room(how, texts.holds);
  const auto lines = input_lines(command.file);
  const auto data = inputs_of(task, lines);
  auto sampler = as_trained(opened.config.train.sampler, texts.longest);
  sampler.batch_size = command.batch_size;
  const auto all = write_all(task, *data, sampler, how, command.seed);
  for (size_t i = 0; i < all.size(); ++i)
    if (command.json)
      fmt::print("{}\n", to_json(Node::map({{"source", Node::string(lines[i].text)},
                                            {"texts", list_of(all[i])}})));
    else
      show(lines, i, all[i], how.n_best > 1);
  return 0;
}

}  // namespace longbow::cli
