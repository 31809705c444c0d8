// A model of characters that remembers earlier segments of a text foresees more of it than one that
// begins each segment anew.
#include <gtest/gtest.h>

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

double perplexity(const std::string& name, const std::string& attention, bool carry) {
  const auto files = scratch() + "_" + name, out = files + "/run";
  std::filesystem::remove_all(files);
  std::filesystem::create_directories(files);
  write_file(files + "/train.txt", verses(400));
  auto tree = parse_yaml(
      "{task: lines, data: {tokenizer: {train: characters}, lines: {length: 13}}, "
      "model: {width: 32, heads: 2, layers: 1, init: xavier, positions: none, max_length: "
      "1000000}, "
      "train: {max_steps: 300, batch_size: 32, bucket: 1, learning_rate: 0.01, threads: 0, "
      "warmup_steps: 20, events: false}}",
      "run.yaml");
  tree["data"]["path"] = Node::string(files);
  tree["data"]["cache"] = Node::string(files + "/cache");
  tree["model"]["attention"] = parse_yaml(attention, "attention");
  tree["train"]["carry"] = Node::boolean(carry);
  run(read_run_config(tree), out);
  const auto value = metrics(out, "test").at(0).at("perplexity").get<double>();
  testing::Test::RecordProperty(name, std::to_string(value));
  return value;
}

TEST(MemoryTrain, RememberingSegmentsForeseesMore) {
  const auto xl = "{name: transformer_xl, memory: 128}";
  const double alone = perplexity("alone", xl, false),
               remembers = perplexity("remembers", xl, true);
  const double compressed =
      perplexity("compressed", "{name: compressive, memory: 128, slots: 16, rate: 4}", true);
  EXPECT_GT(alone, 9) << "twelve letters";
  EXPECT_LT(remembers, alone / 2);
  EXPECT_LT(compressed, remembers * 1.02);
}

}  // namespace
}  // namespace longbow
