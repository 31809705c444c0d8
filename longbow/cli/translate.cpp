#include <fmt/format.h>

#include "longbow/cli/asking.h"
#include "longbow/cli/dialogue.h"

namespace longbow::cli {
namespace {

void show(const predict::Line& line, const std::vector<predict::Written>& written, bool several,
          bool json) {
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
  const auto model = open_for("translate", command.folder, command.device);
  const auto how = decoding_with(model.task(), command.decoding);
  predict::check_translation_room(model.task(), how, Place{"--max-length", 0});
  const auto translate = [&](const std::vector<predict::Line>& lines, uint64_t seed) {
    const auto all = predict::translated(model.task(), lines, model.config().train.sampler, how,
                                         command.batch_size, seed);
    for (size_t i = 0; i < all.size(); ++i) show(lines[i], all[i], how.n_best > 1, command.json);
  };
  if (is_typed(command.file))
    converse(model, /*limit=*/0,
             [&](const predict::Line& line) { translate({line}, typed_seed(command.seed, line)); });
  else
    translate(input_lines(command.file), command.seed);
  return 0;
}

}  // namespace longbow::cli
