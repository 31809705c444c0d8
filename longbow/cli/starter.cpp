#include "longbow/cli/starter.h"

#include <algorithm>
#include <string>
#include <vector>

#include "longbow/data/source.h"
#include "longbow/tasks/task.h"

namespace longbow::cli {
namespace {

const char* const kCommon = R"(
model: {width: 64, heads: 8, layers: 2, positions: learned, init: xavier, block: {feed_forward: 128},
        attention: linear}
train: {max_steps: 600, batch_size: 32, learning_rate: 1e-3, warmup_steps: 50, decay: cosine,
        weight_decay: 0.01, bucket: 16, evaluate_every: 100}
)";

// listops and recall are the tasks of configs/quick.yaml.
struct Row {
  const char *name, *config, *reaches;
};
constexpr Row kRows[] = {
    {"listops",
     "{task: listops, data: {listops: {train: 8000, valid: 500, test: 1000, min_length: 20, "
     "max_length: 100, max_depth: 5}}}",
     "38 % accuracy; the outermost operator alone tells 34 %"},
    {"recall",
     "{task: recall, data: {recall: {train: 20000, valid: 500, test: 1000, keys: 40, values: 8, "
     "pairs: 26, queries: 16, joint: true}}, train: {learning_rate: 3e-3}}",
     "98 % accuracy; the most frequent class has 12 %"},
    {"match",
     "{task: match, data: {match: {train: 8000, valid: 500, test: 1000}}, "
     "model: {pairs: towers, features: [concat, product, difference]}}",
     "100 % accuracy; guessing has 50 %"},
    {"count", "{task: count, data: {count: {train: 8000, valid: 500, test: 1000}}}",
     "a Pearson correlation of 0.999; a constant has 0"},
    {"needle",
     "{task: needle, data: {needle: {train: 8000, valid: 500, test: 1000}}, "
     "model: {attention: softmax, max_span: 8}, train: {learning_rate: 2e-3}}",
     "99 % of the spans exactly"},
    {"markov",
     "{task: markov, data: {markov: {train: 8000, valid: 500, test: 500, words: 16, length: 48}}, "
     "train: {learning_rate: 3e-3}}",
     "a perplexity of 3.1 over 16 words"},
    {"reverse",
     "{task: reverse, data: {reverse: {train: 8000, valid: 500, test: 500, length: 12}}, "
     "train: {max_steps: 1000, learning_rate: 2e-3}}",
     "a perplexity of 1.2 over 16 symbols"},
    {"masked_lm",
     "{task: markov, objective: masked_lm, data: {markov: {train: 8000, valid: 500, test: 500, "
     "words: 8, followers: 3, branches: 2, length: 32}}, model: {heads: 4, attention: softmax, "
     "masking: {share: 0.15}}, train: {max_steps: 1000, learning_rate: 3e-3}}",
     "a perplexity of 1.7 over 8 words"},
    {"replaced_tokens",
     "{task: markov, objective: replaced_tokens, data: {markov: {train: 8000, valid: 500, "
     "test: 500, words: 8, followers: 3, branches: 2, length: 32}}, model: {heads: 4, "
     "attention: softmax, generator: {width: 8, layers: 1}}, "
     "train: {max_steps: 1000, learning_rate: 3e-3}}",
     "a detector loss of 0.18; their share alone gives 0.23"},
    {"characters",
     "{task: listops, objective: characters, data: {listops: {train: 8000, valid: 500, test: 1000, "
     "min_length: 20, max_length: 100, max_depth: 5}}, model: {max_length: 112, rate: 4, "
     "hashes: 4, buckets: 64, first: softmax, last: softmax, attention: softmax}}",
     "38 % accuracy; the outermost operator alone tells 34 %"},
};

// The keys of a run in the order that a reader wants them.
Node in_order(const Node& config) {
  Node result = Node::map();
  for (const auto* key : {"task", "objective", "data", "model", "train"})
    if (const auto* found = config.find(key)) result[key] = *found;
  return result;
}

std::vector<Starter> made_starters() {
  const auto common = parse_yaml(kCommon, Place{"starter", 0});
  std::vector<Starter> all;
  for (const auto& [name, config, reaches] : kRows)
    all.push_back(
        {name, in_order(merged(common, parse_yaml(config, Place{"starter", 0}))), reaches});
  return all;
}

}  // namespace

const std::vector<Starter>& starters() {
  static const auto all = made_starters();
  return all;
}

const Starter& find_starter(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& starter : starters()) {
    if (starter.name == name) return starter;
    known.push_back(starter.name);
  }
  for (const auto& source : data_sources()) {
    if (source.objective == name) return find_starter(source.name);
    if (std::find(known.begin(), known.end(), source.objective) == known.end())
      known.push_back(source.objective);
  }
  throw UserError("unknown name " + quote(name), suggest(name, known));
}

}  // namespace longbow::cli
