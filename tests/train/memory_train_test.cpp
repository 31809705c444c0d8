// A model of characters that remembers earlier segments of a text foresees more of it than one that
// begins each segment anew.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "longbow/core/seed.h"
#include "tests/train/runs.h"

namespace longbow {
namespace {

// Verses of 24 letters, each said six times: who remembers more than a segment of 12 letters knows
// how a verse goes on.
std::string verses(int64_t count) {
  Stream stream(1, "verses");
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    std::string verse;
    for (int64_t k = 0; k < 23; ++k) verse += static_cast<char>('a' + stream.below(12));
    for (int64_t k = 0; k < 6; ++k) text += verse + (k < 5 ? " " : "\n");
  }
  return text;
}

// Chapters of 600 letters, each with its own frequencies, as a subject has its words: the more of a
// chapter a model remembers, the better it knows them.
std::string chapters(int64_t count) {
  Stream stream(2, "chapters");
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    std::string letters, bag;  // in any order; the k-th of them 60 / k times
    for (int64_t k = 0; k < 20; ++k) {
      const auto place = static_cast<size_t>(stream.below(k + 1));
      letters.insert(place, 1, static_cast<char>('a' + k));
    }
    for (size_t k = 0; k < 20; ++k) bag.append(60 / (k + 1), letters[k]);
    for (int64_t k = 0; k < 599; ++k)
      text += bag[static_cast<size_t>(stream.below(static_cast<int64_t>(bag.size())))];
    text += '\n';
  }
  return text;
}

struct Training {
  std::string text;
  int64_t length = 13, batch = 32, steps = 300, seed = 0;
  double learning_rate = 0.01;
};

// On the held-out end of the text.
double perplexity(const std::string& name, const std::string& attention, bool carry,
                  const Training& training) {
  const auto files = scratch() + "_" + name, out = files + "/run";
  std::filesystem::remove_all(files);
  std::filesystem::create_directories(files);
  write_file(files + "/train.txt", training.text);
  auto tree = parse_yaml(
      "{task: lines, data: {tokenizer: {train: characters}}, "
      "model: {width: 32, heads: 2, layers: 1, init: xavier, positions: none, max_length: "
      "1000000}, "
      "train: {bucket: 1, threads: 0, warmup_steps: 20, events: false}}",
      "run.yaml");
  tree["seed"] = Node::integer(training.seed);
  tree["data"]["path"] = Node::string(files);
  tree["data"]["cache"] = Node::string(files + "/cache");
  tree["data"]["lines"] = Node::map({{"length", Node::integer(training.length)}});
  tree["model"]["attention"] = parse_yaml(attention, "attention");
  tree["train"]["carry"] = Node::boolean(carry);
  tree["train"]["batch_size"] = Node::integer(training.batch);
  tree["train"]["max_steps"] = Node::integer(training.steps);
  tree["train"]["learning_rate"] = Node::number(training.learning_rate);
  run(read_run_config(tree), out);
  const auto value = metrics(out, "test").at(0).at("perplexity").get<double>();
  testing::Test::RecordProperty(name, std::to_string(value));
  return value;
}

TEST(MemoryTrain, RememberingSegmentsForeseesMore) {
  const Training training = {.text = verses(400)};
  const auto xl = "{name: transformer_xl, memory: 128}";
  const double alone = perplexity("alone", xl, false, training);
  EXPECT_GT(alone, 9) << "twelve letters";
  EXPECT_LT(perplexity("remembers", xl, true, training), alone / 2);
  EXPECT_LT(perplexity("compressed", "{name: compressive, memory: 128, slots: 16, rate: 4}", true,
                       training),
            alone / 2);
}

// Slots stand for 128 letters more than the same memory without them. In the mean over three seeds
// of the weights, since one run differs from the next by about 0.7 %.
TEST(MemoryTrain, CompressedMemoriesForeseeMoreOfALongText) {
  double remembers = 0, compressed = 0;
  for (const int64_t seed : {0, 1, 2}) {
    const Training training = {.text = chapters(400),
                               .length = 33,
                               .batch = 16,
                               .steps = 600,
                               .seed = seed,
                               .learning_rate = 0.003};
    const auto numbered = [&](const char* name) { return name + std::to_string(seed); };
    remembers +=
        perplexity(numbered("remembers"), "{name: transformer_xl, memory: 32}", true, training);
    compressed += perplexity(numbered("compressed"),
                             "{name: compressive, memory: 32, slots: 32, rate: 4}", true, training);
  }
  EXPECT_LT(compressed, 0.98 * remembers) << "the sums of three perplexities";
}

}  // namespace
}  // namespace longbow
