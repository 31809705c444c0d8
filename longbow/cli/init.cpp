#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "longbow/cli/columns.h"
#include "longbow/cli/commands.h"
#include "longbow/cli/reference.h"
#include "longbow/cli/starter.h"
#include "longbow/corpus/files/text_file.h"
#include "longbow/data/readers/source.h"
#include "longbow/tasks/task.h"
#include "longbow/text/unicode/well_formed.h"

namespace longbow::cli {
namespace {

std::string flow(const Node& value) {
  if (!value.is_list()) return value.text;
  std::string text;
  for (const auto& item : value.items) text += (text.empty() ? "" : ", ") + flow(item);
  return "[" + text + "]";
}

// What a key means, and what it is when it is left out. The objective's own words come before those
// that all models share.
std::string comment_on(const std::string& key, const std::string& objective) {
  if (key == "data.tokenizer") return "how texts become tokens";
  if (key == "data.tokenizer.lowercase")
    return "true, the default of wordpiece, also strips accents, which splits the syllables of "
           "Hangul into letters";
  const FieldDoc* found = nullptr;
  for (const auto& section : config_sections()) {
    if (section.kind == "objective" && section.name != objective) continue;
    for (const auto& doc : section.keys)
      if (doc.name == key) found = &doc;
  }
  if (!found) return key.starts_with("data.") ? "options of the data set" : "";
  const bool has_default = found->type != "map" && !found->fallback.empty();
  return found->meaning + (has_default ? " [default " + found->fallback + "]" : "");
}

void add_rows(const Node& node, const std::string& prefix, const std::string& objective,
              NamedRows& rows) {
  const std::string indent(2 * std::count(prefix.begin(), prefix.end(), '.'), ' ');
  for (const auto& [key, value] : node.entries) {
    const auto name = prefix + key;
    rows.push_back({indent + key + ":" + (value.is_map() ? "" : " " + flow(value)),
                    comment_on(name, objective)});
    if (value.is_map()) add_rows(value, name + ".", objective, rows);
  }
}

const Objective& objective_of(const Starter& starter) {
  const auto* said = starter.config.find("objective");
  if (said) return find_objective(said->text);
  const auto& source = find_data_source(starter.config.find("task")->text);
  const auto* options = starter.config.find("data")->find(source.name);
  return find_objective(source.objective_for && options ? source.objective_for(*options)
                                                        : source.objective);
}

// The character at `at`, of which JSON may write the number instead, as \uAC00.
char32_t character_at(std::string_view text, size_t& at) {
  const auto code = unicode::next_character(text, at);
  if (code != U'\\' || !text.substr(at).starts_with('u')) return code;
  const auto digits = text.substr(at + 1, 4);
  uint32_t number = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  return error == std::errc{} && end == digits.data() + 4 ? static_cast<char32_t>(number) : code;
}

// Whether a file begins with a text that has syllables of Hangul.
bool has_hangul(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return false;
  corpus::TextFile file(path, {.malformed = corpus::Malformed::replace});
  const auto text = file.peek();
  for (size_t at = 0; at < text.size();)
    if (const auto code = character_at(text, at); code >= U'\uAC00' && code <= U'\uD7A3')
      return true;
  return false;
}

// Only wordpiece lowercases unless told otherwise.
bool lowercases(const Node& data) {
  const auto* tokenizer = data.find("tokenizer");
  const auto* kind = tokenizer ? tokenizer->find("train") : nullptr;
  return !kind || kind->text == "wordpiece";
}

// The starter of the data set with a file of one's own in place of that of the example.
void set_file(Starter& starter, const std::string& file) {
  const auto& source = find_data_source(starter.config.find("task")->text);
  if (!source.data_for)
    throw UserError(Place{file, 0}, source.name + " takes no file of your own",
                    "one of: table, lines, parallel, questions");
  auto& data = starter.config["data"];
  data[source.name] = Node::map();
  data = merged(data, source.data_for(file));
  if (lowercases(data) && has_hangul(file)) data["tokenizer"]["lowercase"] = Node::boolean(false);
}

std::string config_of(const Starter& starter) {
  const auto& objective = objective_of(starter);
  const auto& task = starter.config.find("task")->text;
  const auto& source = find_data_source(task);
  NamedRows rows;
  add_rows(starter.config, "", objective.name, rows);
  std::string text = fmt::format("# {}: {}\n", source.name, source.description);
  text += fmt::format("# Learnt as {}. Reaches {}.\n#\n", objective.name, starter.reaches);
  text += fmt::format("#   {:<40} about a minute on two cores\n",
                      fmt::format("longbow train {}.yaml", starter.name));
  text += fmt::format("#   {:<40} RUN is the folder that train prints last\n#\n",
                      fmt::format("longbow {} RUN", objective.command));
  text += "# Every key but task may be left out. All there are: longbow describe NAME, with NAME\n";
  text += fmt::format("# {}, model, {}, train or run. Mechanisms for attention: longbow list.\n\n",
                      source.name, objective.name);
  return text + two_columns(rows, "# ");
}

std::string listing() {
  NamedRows sources, learnt;
  for (const auto& source : data_sources())
    sources.emplace_back("  " + source.name, source.description);
  for (const auto& objective : objectives())
    learnt.emplace_back("  " + objective.name,
                        fmt::format("{} (on {})", objective.description,
                                    find_starter(objective.name).config.find("task")->text));
  return "Prints a config that learns, with the meaning of every key:\n\n"
         "  longbow init recall > recall.yaml\n"
         "  longbow train recall.yaml\n\nData sets\n" +
         two_columns(sources) + "\nObjectives\n" + two_columns(learnt);
}

}  // namespace

int run(const InitCommand& command) {
  if (command.name.empty()) {
    fmt::print("{}", listing());
    return 0;
  }
  auto starter = find_starter(command.name);
  if (!command.file.empty()) set_file(starter, command.file);
  fmt::print("{}", config_of(starter));
  return 0;
}

}  // namespace longbow::cli
