#include "longbow/cli/asking.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <iterator>

#include "longbow/cli/device.h"
#include "longbow/core/file.h"
#include "longbow/tasks/prediction.h"

namespace longbow::cli {
namespace {

std::string flag_of(std::string option) {
  std::replace(option.begin(), option.end(), '_', '-');
  return "--" + option;
}

std::vector<int32_t> sequence_of(std::string_view text, const Symbols& symbols,
                                 const Place& place) {
  auto tokens = symbols.read(text, place);
  if (tokens.empty()) throw UserError(place, "there are no tokens", "a line is one input");
  return tokens;
}

Sample sample_of(const Line& line, const Texts& texts) {
  const auto tab = line.text.find('\t');
  const bool two = tab != std::string::npos;
  if (texts.pairs != two || (two && line.text.find('\t', tab + 1) != std::string::npos))
    throw UserError(line.place, two ? "a TAB too many" : "there is no TAB",
                    texts.pairs ? "an input is two sequences with a TAB between them"
                                : "an input is one sequence");
  Sample sample = {.tokens = sequence_of(line.text.substr(0, tab), texts.read, line.place)};
  if (two) sample.second = sequence_of(line.text.substr(tab + 1), texts.read, line.place);
  if (texts.hidden > 0 && std::ranges::find(sample.tokens, texts.hidden) == sample.tokens.end())
    throw UserError(line.place, "there is nothing to guess",
                    "write " + texts.read.text({&texts.hidden, 1}) + " for it");
  return sample;
}

// Flags that one method only has a use for.
DecodingMethod method_for(const std::string& option, DecodingMethod otherwise) {
  if (option == "beams" || option == "early_stopping") return DecodingMethod::beam;
  if (option == "temperature" || option == "top_k" || option == "top_p")
    return DecodingMethod::sample;
  return otherwise;
}

// The texts of one lane, best first.
std::vector<Written> written_by(const Decoded& decoded, int64_t lane, const Texts& texts) {
  std::vector<Written> all;
  for (int64_t n = 0; n < decoded.lengths.size(1); ++n) {
    const auto length = decoded.lengths[lane][n].item<int64_t>();
    if (length == 0) continue;  // the search found fewer
    const auto row = decoded.tokens[lane][n].narrow(0, 0, length).cpu().contiguous();
    const auto* ids = row.const_data_ptr<int64_t>();
    const bool ended = texts.end > 0 && ids[length - 1] == texts.end;
    all.push_back({.tokens = {ids, ids + length},
                   .text = texts.written.text({ids, ids + length - (ended ? 1 : 0)}),
                   .score = decoded.scores[lane][n].item<double>()});
  }
  return all;
}

}  // namespace

FinishedRun open_for(const std::string& command, const std::string& folder,
                     const std::string& device) {
  auto run = open_run(folder, parse_device(device));
  const auto& own = find_objective(run.config.objective);
  if (own.command != command) {
    std::string able;
    for (const auto& objective : objectives())
      if (objective.command == command) able += (able.empty() ? "" : ", ") + objective.name;
    throw UserError(Place{folder, 0},
                    "is a run of " + own.name + "; " + command + " needs one of " + able,
                    "ask this one with `longbow " + own.command + "`");
  }
  run.task->model().eval();
  return run;
}

void check_split(const std::string& name) {
  if (name != "train" && name != "valid" && name != "test")
    throw UserError(Place{"--split", 0}, "unknown split '" + name + "'",
                    "one of: train, valid, test");
}

const Dataset& split_of(const Task& task, const std::string& name) {
  check_split(name);
  const auto& splits = task.splits();
  return name == "train" ? *splits.train : name == "valid" ? *splits.valid : *splits.test;
}

std::vector<Line> input_lines(const std::string& file) {
  const bool typed = file == "-";
  const auto contents =
      typed ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : read_file(file);
  std::vector<Line> lines;
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

std::shared_ptr<const Dataset> inputs_of(const Task& task, const std::vector<Line>& lines) {
  const auto texts = task.texts();
  std::vector<Sample> samples;
  for (const auto& line : lines) samples.push_back(sample_of(line, texts));
  auto data = longbow::inputs_of(task, std::move(samples));
  for (int64_t i = 0; i < data->size(); ++i)
    if (data->length(i) > texts.longest)
      throw UserError(
          lines[static_cast<size_t>(i)].place,
          fmt::format("{} tokens, but the model holds {}", data->length(i), texts.longest),
          "shorten the line, or train with a larger model.max_length");
  return data;
}

SamplerConfig as_trained(SamplerConfig config, int64_t longest) {
  if (config.lengths.empty())
    for (int64_t length = config.bucket; length < longest; length += config.bucket)
      config.lengths.push_back(length);
  if (config.lengths.empty() || config.lengths.back() < longest) config.lengths.push_back(longest);
  return config;
}

void for_batches(const Task& task, const Dataset& data, SamplerConfig sampler, uint64_t seed,
                 const Take& take) {
  const at::NoGradGuard no_grad;
  if (data.size() == 0) return;
  sampler.shuffle = sampler.drop_last = false;
  Sampler plans(lengths_of(data), sampler, 0);
  for (int64_t i = 0; i < plans.batches_per_epoch(); ++i) {
    const auto plan = plans.next();
    take(collate(data, plan).to(task.device()), plan.indices,
         Random::from_seed(seed, i, task.device()));
  }
}

std::vector<FieldDoc> decoding_options() {
  return describe<DecodingConfig>();
}

DecodingConfig decoding_with(const Task& task, const DecodingFlags& flags) {
  auto tree = written(task.decoding());
  for (const auto& [option, value] : flags)
    tree[option] = parse_yaml(value, Place{flag_of(option), 0});
  const auto how = read<DecodingConfig>(tree, "decoding");
  const auto name = [](DecodingMethod method) {
    return std::string(names_of(method)[static_cast<size_t>(method)]);
  };
  for (const auto& [option, value] : flags)
    if (const auto wanted = method_for(option, how.method); wanted != how.method)
      throw UserError(Place{flag_of(option), 0},
                      "the method " + name(how.method) + " has no use for it",
                      "add --method " + name(wanted));
  check_decoding(how, tree);
  return how;
}

std::vector<std::vector<Written>> write_all(Task& task, const Dataset& data,
                                            const SamplerConfig& sampler, const DecodingConfig& how,
                                            uint64_t seed) {
  const auto texts = task.texts();
  std::vector<std::vector<Written>> all(static_cast<size_t>(data.size()));
  for_batches(task, data, sampler, seed,
              [&](const Batch& batch, const std::vector<int64_t>& indices, const Random& random) {
                const auto decoded = task.write(batch, how, random);
                for (size_t lane = 0; lane < indices.size(); ++lane)
                  all[static_cast<size_t>(indices[lane])] =
                      written_by(decoded, static_cast<int64_t>(lane), texts);
              });
  return all;
}

Node list_of(const std::vector<Written>& written) {
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
