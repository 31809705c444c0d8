#include <fmt/format.h>

#include "longbow/cli/asking.h"
#include "longbow/cli/dialogue.h"

namespace longbow::cli {
namespace {

void check_room(const DecodingConfig& how, int64_t holds) {
  if (how.max_length > holds)
    throw UserError(Place{"--max-length", 0},
                    fmt::format("{} tokens, but the decoder holds {}", how.max_length, holds),
                    "lower it, or train with a larger model.decoder.max_length");
}

void show(const Line& line, const std::vector<Written>& written, bool several, bool json) {
  if (json)
    fmt::print(
        "{}\n",
        to_json(Node::map({{"source", Node::string(line.text)}, {"texts", list_of(written)}})));
  else
    for (const auto& one : written)
      if (several)
        fmt::print("{} ||| {} ||| {:.4f}\n", line.place.line, one.text, one.score);
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
  auto sampler = as_trained(opened.config.train.sampler, texts.longest);
  sampler.batch_size = command.batch_size;
  const auto translate = [&](const std::vector<Line>& lines, uint64_t seed) {
    const auto all = write_all(task, *inputs_of(task, lines), sampler, how, seed);
    for (size_t i = 0; i < all.size(); ++i) show(lines[i], all[i], how.n_best > 1, command.json);
  };
  if (is_typed(command.file))
    converse(opened, /*limit=*/0,
             [&](const Line& line) { translate({line}, typed_seed(command.seed, line)); });
  else
    translate(input_lines(command.file), command.seed);
  return 0;
}

}  // namespace longbow::cli
