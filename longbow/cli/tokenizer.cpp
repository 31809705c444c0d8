#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>

#include "longbow/cli/commands.h"
#include "longbow/cli/text_input.h"
#include "longbow/core/error.h"
#include "longbow/core/fields.h"
#include "longbow/core/file.h"
#include "longbow/core/interruption.h"
#include "longbow/core/log.h"
#include "longbow/core/option_error.h"
#include "longbow/core/utf8.h"
#include "longbow/core/work.h"
#include "longbow/text/formats/read_tokenizer.h"
#include "longbow/text/formats/tokenizer_json.h"
#include "longbow/text/trainers/preset.h"
#include "longbow/text/trainers/train_tokenizer.h"

namespace fs = std::filesystem;

namespace longbow::cli {
namespace {

// The lines of several files in turn, "-" for stdin, without their ends; one at a time.
class Lines {
 public:
  explicit Lines(std::vector<std::string> files) : files_(std::move(files)) {}

  bool next(std::string& line) {
    while (file_ || open()) {
      if (file_->line(line)) return true;
      stored_ += file_->stored();
      file_.reset();
    }
    return false;
  }
  Place place() const { return file_->place(); }  // of the line that was read last
  int64_t stored() const { return stored_ + (file_ ? file_->stored() : 0); }  // bytes on disk

 private:
  bool open() {
    if (opened_ == files_.size()) return false;
    file_ = open_text(files_[opened_++]);
    return true;
  }

  std::vector<std::string> files_;
  size_t opened_ = 0;
  std::optional<corpus::TextFile> file_;
  int64_t stored_ = 0;  // of the files before
};

// Finds what is wrong with a file before the texts of others are read. What is neither a file nor a
// folder stays closed: opening a pipe takes from it.
void check_files(const std::vector<std::string>& files) {
  for (const auto& file : files) {
    std::error_code unknown;
    if (file != "-" && !fs::is_other(file, unknown)) open_text(file);
  }
}

// 0 when it is not known, as of a pipe.
int64_t bytes_of(const std::vector<std::string>& files) {
  int64_t total = 0;
  for (const auto& file : files) {
    std::error_code unknown;
    const auto size = fs::file_size(file, unknown);
    if (file == "-" || unknown) return 0;
    total += static_cast<int64_t>(size);
  }
  return total;
}

std::string flag_of(std::string option) {
  if (option == "train") return "--kind";
  for (auto& c : option)
    if (c == '_') c = '-';
  return "--" + option;
}

// A flag as the node that a config would have: lists are separated by commas.
Node value_of(const FieldDoc& option, const std::string& text) {
  const Place place = {flag_of(option.name), 0};
  Node value;
  if (option.type == "list of string") {
    value = Node::list();
    for (size_t at = 0; !text.empty() && at <= text.size();) {
      const auto end = std::min(text.find(',', at), text.size());
      value.items.push_back(Node::string(text.substr(at, end - at)));
      at = end + 1;
    }
  } else if (option.type == "string") {
    value = Node::string(text);
  } else {
    return parse_yaml(text, place);
  }
  value.place = place;
  return value;
}

TrainTokenizerOptions training_options(const TokenizerCommand& command) {
  auto node = Node::map();
  for (const auto& option : tokenizer_options())
    if (const auto found = command.options.find(option.name); found != command.options.end())
      node[option.name] = value_of(option, found->second);
  const auto options = read<TrainTokenizerOptions>(node, "tokenizer");
  check_options(node, "tokenizer", [&] { check_kind_options(options); });
  return options;
}

int train(const TokenizerCommand& command) {
  const auto style = parse_progress(command.progress);
  const auto options = training_options(command);
  if (!command.force && fs::exists(command.out))
    throw UserError(Place{command.out, 0}, "exists already",
                    "give another file with --out, or --force to replace it");
  require_writable(command.out);
  if (command.files.empty() && options.kind != TokenizerKind::bytes)
    throw UserError("no file to train on", "give files with one text per line; - is stdin");
  check_files(command.files);
  const InterruptionGuard guard;
  show_work(style);
  Lines lines(command.files);
  std::optional<Work> work;
  std::string stage;
  const auto tokenizer = train_tokenizer(
      options, [&](std::string& text) { return lines.next(text); },
      [&](const char* name, int64_t done, int64_t total) {
        if (stage != name) {
          stage = name;
          work.emplace("tokenizer: " + stage, stage == "texts" ? bytes_of(command.files) : total);
        }
        work->reached(stage == "texts" ? lines.stored() : done);
      });
  work.reset();
  write_file(command.out, tokenizer_json(tokenizer));
  info(fmt::format("{} tokens", tokenizer.size()));
  fmt::print("{}\n", command.out);
  return 0;
}

std::string json_of(const Encoding& encoding) {
  std::vector<std::string> tokens, offsets;
  for (const auto& token : encoding.tokens) tokens.push_back(string_literal(token));
  for (const auto& [begin, end] : encoding.offsets)
    offsets.push_back(fmt::format("[{}, {}]", begin, end));
  return fmt::format(R"({{"ids": [{}], "tokens": [{}], "offsets": [{}], "type_ids": [{}]}})",
                     fmt::join(encoding.ids, ", "), fmt::join(tokens, ", "),
                     fmt::join(offsets, ", "), fmt::join(encoding.type_ids, ", "));
}

// The end of the first of two texts in a line.
size_t only_tab(const std::string& line, const Place& place) {
  const auto tab = line.find('\t');
  if (tab == std::string::npos || line.find('\t', tab + 1) != std::string::npos)
    throw UserError(place, "is not two texts with one TAB between them", "leave --pair out");
  return tab;
}

Encoding encoded(const Tokenizer& tokenizer, const TokenizerCommand& command,
                 const std::string& line, const Place& place) {
  const EncodeOptions options = {.add_special_tokens = !command.plain};
  const auto tab = command.pair ? only_tab(line, place) : line.size();
  const auto first = std::string_view(line).substr(0, tab);
  try {
    if (!command.pair) return tokenizer.encode(first, options);
    return tokenizer.encode(first, std::string_view(line).substr(tab + 1), options);
  } catch (const UserError& error) {
    throw UserError(place, error.what());
  }
}

int encode(const TokenizerCommand& command) {
  const auto tokenizer = read_tokenizer(command.tokenizer);
  Lines lines({command.file});
  for (std::string line; lines.next(line);) {
    const auto encoding = encoded(tokenizer, command, line, lines.place());
    if (command.json)
      fmt::print("{}\n", json_of(encoding));
    else
      fmt::print("{}\n", fmt::join(encoding.tokens, " "));
  }
  return 0;
}

std::vector<int32_t> ids_in(std::string_view line, const Tokenizer& tokenizer, const Place& place) {
  std::vector<int32_t> ids;
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.empty()) return ids;
    const auto word = line.substr(0, line.find_first_of(" \t"));
    int32_t id = -1;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    const bool is_id = error == std::errc{} && stop == word.data() + word.size() && id >= 0 &&
                       static_cast<size_t>(id) < tokenizer.size();
    if (!is_id)
      throw UserError(place, quote(std::string(word)) + " is not an id of the tokenizer",
                      fmt::format("ids are 0 to {}, with blanks between them",
                                  static_cast<int64_t>(tokenizer.size()) - 1));
    ids.push_back(id);
    line.remove_prefix(word.size());
  }
}

int decode(const TokenizerCommand& command) {
  const auto tokenizer = read_tokenizer(command.tokenizer);
  const auto special =
      command.special ? Tokenizer::SpecialTokens::kept : Tokenizer::SpecialTokens::skipped;
  Lines lines({command.file});
  for (std::string line; lines.next(line);)
    fmt::print("{}\n", tokenizer.decode(ids_in(line, tokenizer, lines.place()), special));
  return 0;
}

template <class Part>
std::string type_of(const std::shared_ptr<const Part>& part) {
  if (!part) return "none";
  const auto node = part->node();
  for (const auto* list : {"normalizers", "pretokenizers", "processors", "decoders"})
    if (const Node* steps = node.find(list)) {
      std::string names;
      for (const auto& step : steps->items)
        names += (names.empty() ? "" : ", ") + step.find("type")->text;
      return names;
    }
  return node.find("type")->text;
}

// The model writes its type first.
std::string type_of(const TokenModel& model) {
  JsonStream stream(-1);
  model.write(stream);
  const auto text = stream.take();
  const std::string key = "\"type\":";
  const auto begin = text.find('"', text.find(key) + key.size()) + 1;
  return text.substr(begin, text.find('"', begin) - begin);
}

int show(const TokenizerCommand& command) {
  const auto tokenizer = read_tokenizer(command.tokenizer);
  const auto& parts = tokenizer.parts();
  Node special = Node::list();
  for (const auto& token : tokenizer.added_tokens().list())
    if (token.special)
      special.items.push_back(
          Node::map({{"token", Node::string(token.content)}, {"id", Node::integer(token.id)}}));
  const auto facts = Node::map({{"model", Node::string(type_of(*parts.model))},
                                {"size", Node::integer(static_cast<int64_t>(tokenizer.size()))},
                                {"normalizer", Node::string(type_of(parts.normalizer))},
                                {"pre_tokenizer", Node::string(type_of(parts.pre_tokenizer))},
                                {"post_processor", Node::string(type_of(parts.post_processor))},
                                {"decoder", Node::string(type_of(parts.decoder))},
                                {"special_tokens", special}});
  fmt::print("{}", command.json ? to_json(facts, 2) + "\n" : to_yaml(facts));
  return 0;
}

}  // namespace

std::vector<FieldDoc> tokenizer_options() {
  return describe<TrainTokenizerOptions>();
}

int run(const TokenizerCommand& command) {
  if (command.action == "train") return train(command);
  if (command.action == "encode") return encode(command);
  if (command.action == "decode") return decode(command);
  return show(command);
}

}  // namespace longbow::cli
