#include "longbow/cli/asking.h"

#include <algorithm>
#include <iostream>
#include <iterator>

#include "longbow/cli/device.h"
#include "longbow/core/file.h"

namespace longbow::cli {
namespace {

std::string flag_of(std::string option) {
  std::replace(option.begin(), option.end(), '_', '-');
  return "--" + option;
}

}  // namespace

void check_split(const std::string& name) {
  if (name != "train" && name != "valid" && name != "test")
    throw UserError(Place{"--split", 0}, "unknown split '" + name + "'",
                    "one of: train, valid, test");
}

std::shared_ptr<const Dataset> split_of(const Task& task, const std::string& name) {
  check_split(name);
  const auto& splits = task.splits();
  return name == "train" ? splits.train : name == "valid" ? splits.valid : splits.test;
}

TrainedModel open_for(const std::string& command, const std::string& folder,
                      const std::string& device) {
  auto model = open_model(folder, parse_device(device));
  model.check_command(command);
  return model;
}

std::vector<predict::Line> input_lines(const std::string& file) {
  const bool typed = file == "-";
  const auto contents =
      typed ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : read_file(file);
  std::vector<predict::Line> lines;
  for (size_t at = 0; at < contents.size();) {
    const auto end = std::min(contents.find('\n', at), contents.size());
    auto text = contents.substr(at, end - at);
    if (text.ends_with('\r')) text.pop_back();
    lines.push_back(
        {std::move(text), {typed ? "stdin" : file, static_cast<int>(lines.size()) + 1}});
    at = end + 1;
  }
  return lines;
}

std::vector<FieldDoc> decoding_options() {
  return describe<DecodingConfig>();
}

DecodingConfig decoding_with(const Task& task, const DecodingFlags& flags) {
  auto options = Node::map();
  for (const auto& [option, value] : flags)
    options[option] = parse_yaml(value, Place{flag_of(option), 0});
  return predict::decoding_with(task, options);
}

Node list_of(const std::vector<predict::Written>& written) {
  Node list = Node::list();
  for (const auto& [tokens, text, score] : written) {
    Node ids = Node::list();
    for (const auto id : tokens) ids.items.push_back(Node::integer(id));
    list.items.push_back(
        Node::map({{"tokens", ids}, {"text", Node::string(text)}, {"score", Node::number(score)}}));
  }
  return list;
}

}  // namespace longbow::cli
