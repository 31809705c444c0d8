#include "longbow/cli/dialogue.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>

namespace longbow::cli {
namespace {

std::string greeting(const TrainedModel& model) {
  const auto texts = model.task().texts();
  auto text = fmt::format("{} on {}: type {} of up to {} tokens and press Enter; Ctrl-D ends.\n",
                          model.config().objective, model.config().task,
                          texts.pairs ? "two sequences with a TAB between them," : "a sequence",
                          texts.longest);
  text += "Tokens have blanks between them: " + texts.read.examples();
  if (texts.hidden > 0)
    text += fmt::format("; {} marks a token to predict", texts.read.text({&texts.hidden, 1}));
  return text + "\n";
}

}  // namespace

bool is_typed(const std::string& file) {
  return file == "-" && isatty(STDIN_FILENO) != 0;
}

void converse(const TrainedModel& model, int64_t limit,
              const std::function<void(const predict::Line&)>& answer) {
  fmt::print(stderr, "{}> ", greeting(model));
  predict::Line line = {.text = "", .place = {"stdin", 0}};
  while (std::getline(std::cin, line.text)) {
    if (line.text.ends_with('\r')) line.text.pop_back();
    ++line.place.line;
    try {
      answer(line);
      std::fflush(stdout);
    } catch (const UserError& error) {
      fmt::print(stderr, "{}\n", error.what());
    }
    if (line.place.line == limit) return;
    fmt::print(stderr, "> ");
  }
  fmt::print(stderr, "\n");
}

}  // namespace longbow::cli
