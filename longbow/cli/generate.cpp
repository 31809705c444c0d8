#include <fmt/format.h>

#include "longbow/cli/asking.h"
#include "longbow/cli/dialogue.h"

namespace longbow::cli {
namespace {

void check_flags(const GenerateCommand& command) {
  if (command.prompt && !command.file.empty())
    throw UserError(Place{"--prompt", 0}, "--file is given too", "leave one of them out");
  if ((command.prompt || !command.file.empty()) && command.count != 1)
    throw UserError(Place{"--count", 0}, "says how many texts to begin, but there is a prompt",
                    "--method sample with --n-best writes several for each");
}

// Texts behind their prompt. Symbols have a blank between them; plain text has its own.
void show(const Task& task, const std::string& prompt,
          const std::vector<predict::Written>& written) {
  const bool plain = task.texts().written.codec() != nullptr;
  for (const auto& text : written)
    fmt::print("{}{}{}\n", prompt, plain || prompt.empty() || text.text.empty() ? "" : " ",
               text.text);
}

void show_json(const std::string& prompt, const std::vector<predict::Written>& written) {
  fmt::print("{}\n",
             to_json(Node::map({{"prompt", Node::string(prompt)}, {"texts", list_of(written)}})));
}

predict::Prompts prompts_for(const TrainedModel& model, const GenerateCommand& command) {
  if (command.prompt)
    return predict::prompts_of(model.task(), {{*command.prompt, {"--prompt", 0}}});
  if (!command.file.empty()) return predict::prompts_of(model.task(), input_lines(command.file));
  return predict::beginnings(model.task(), model.facts(), command.count, command.seed,
                             Place{"--max-length", 0});
}

}  // namespace

int run(const GenerateCommand& command) {
  check_flags(command);
  const auto model = open_for("generate", command.folder, command.device);
  const auto how = decoding_with(model.task(), command.decoding);
  const auto write = [&](const predict::Prompts& prompts, uint64_t seed) {
    const auto all = predict::continued(model.task(), prompts, how, command.batch_size, seed);
    for (size_t i = 0; i < all.size(); ++i)
      if (command.json)
        show_json(prompts.texts[i], all[i]);
      else
        show(model.task(), prompts.texts[i], all[i]);
  };
  if (is_typed(command.file))
    converse(model, /*limit=*/0, [&](const predict::Line& line) {
      write(predict::prompts_of(model.task(), {line}), typed_seed(command.seed, line));
    });
  else
    write(prompts_for(model, command), command.seed);
  return 0;
}

}  // namespace longbow::cli
