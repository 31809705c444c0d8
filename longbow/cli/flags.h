#pragma once
// How main.cpp declares subcommands and their flags. Only it includes this: the parser is compiled
// once.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <system_error>
#include <vector>

#include "longbow/cli/commands.h"
#include "longbow/cli/threads.h"
#include "longbow/core/error.h"

namespace longbow::cli {

using Action = std::function<int()>;

// Declares a subcommand over a struct that lives as long as the program.
template <class Command>
CLI::App* declare(CLI::App& app, Action& action, const char* name, const char* help,
                  Command& command) {
  auto* sub = app.add_subcommand(name, help);
  sub->callback([&action, &command] { action = [&command] { return run(command); }; });
  return sub;
}

// Commands that can be typed as they stand.
inline void add_examples(CLI::App* sub, const std::vector<std::string>& commands) {
  std::string text = commands.size() > 1 ? "Examples:" : "Example:";
  for (const auto& command : commands) text += "\n  longbow " + command;
  sub->footer(text);
}

inline CLI::Validator between(int64_t least, int64_t most) {
  return CLI::Validator(
      [least, most](std::string& text) -> std::string {
        int64_t value = 0;
        const auto* end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        const bool whole = stop == end && error != std::errc::invalid_argument;
        if (!whole || (error == std::errc{} ? value < least : text.front() == '-'))
          return fmt::format("{} is not a whole number of at least {}", quote(text), least);
        if (error != std::errc{} || value > most)
          return fmt::format("{} is more than {}", quote(text), most);
        return "";
      },
      "");
}
inline CLI::Validator at_least(int64_t least) {
  return between(least, std::numeric_limits<int64_t>::max());
}

inline void add_threads(CLI::App* sub) {
  sub->add_option_function<int64_t>(
         "--threads", set_threads,
         "CPU threads for computation [default OMP_NUM_THREADS, or one per core]")
      ->check(between(1, kMostThreads));
}
inline void add_device(CLI::App* sub, std::string& device) {
  sub->add_option("--device", device, "cpu, cuda, or cuda:N for the GPU number N from 0")
      ->capture_default_str();
  add_threads(sub);
}
inline void add_progress(CLI::App* sub, std::string& progress) {
  sub->add_option("--progress", progress,
                  "auto (a bar on a terminal, otherwise lines), bar, plain, json or off")
      ->capture_default_str();
}
inline void add_set(CLI::App* sub, std::vector<std::string>& set) {
  sub->add_option("--set", set, "KEY=VALUE overrides the config; may be repeated")
      ->allow_extra_args(false);
}

}  // namespace longbow::cli
