// The Long Range Arena as a whole, on files of some samples: all five tasks, each pretrained and
// trained for a few steps.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "longbow/core/seed.h"
#include "tests/cli/program.h"

namespace longbow::cli {
namespace {

using nlohmann::json;

std::string table(const std::string& heading, int64_t rows,
                  const std::function<std::string(int64_t)>& row) {
  auto text = heading + "\n";
  for (int64_t i = 0; i < rows; ++i) text += row(i) + "\n";
  return text;
}

void write_reviews(const Workspace& here) {
  const auto review = [](int64_t i) {
    const bool good = i % 2 == 1;
    return std::to_string(i % 2) + "\t" + std::to_string(i) + "\t" + (good ? "9" : "2") +
           "\tA film of " + std::to_string(i) + " scenes, and a " + (good ? "good" : "bad") +
           " one.";
  };
  for (const auto* name : {"imdb/train.tsv", "imdb/test.tsv"})
    here.write(name, table("label\tid\trating\ttext", 40, review));
}

void write_papers(const Workspace& here) {
  const auto id = [](int64_t i) { return "P" + std::to_string(i); };
  here.write("aan/papers.tsv", table("id\ttext", 12, [&](int64_t i) {
               return id(i) + "\tWe read text number " + std::to_string(i) + " twice.";
             }));
  for (const auto* split : {"train", "dev", "test"})
    here.write(std::string("aan/pairs_") + split + ".tsv",
               table("label\tid1\tid2", 20, [&](int64_t i) {
                 return std::to_string(i % 2) + "\t" + id(i % 12) + "\t" + id((i + 5) % 12);
               }));
}

void write_images(const Workspace& here) {
  for (const auto* name : {"cifar10/cifar10_gray_train.bin", "cifar10/cifar10_gray_test.bin"}) {
    std::string bytes;
    Stream random(1, name);
    for (int64_t i = 0; i < 30; ++i) {
      bytes += static_cast<char>(i % 10);
      for (int64_t pixel = 0; pixel < 1024; ++pixel) bytes += static_cast<char>(random.below(256));
    }
    here.write(name, bytes);
  }
}

TEST(LongRangeArena, ReachesEveryTask) {
  const Workspace here;
  for (const auto* folder : {"imdb", "aan", "cifar10"})
    std::filesystem::create_directories(here.path(folder));
  write_reviews(here);
  write_papers(here);
  write_images(here);
  const auto config =
      (std::filesystem::path(LONGBOW_SOURCE_DIR) / "configs/arena/lra.yaml").string();
  Arguments words = {"arena",  config, "--mechanisms", "softmax,linear,local",
                     "--out",  "out",  "--progress",   "off",
                     "--jobs", "2",    "--untimed"};
  for (const std::string assignment :
       {"common.model={width: 16, layers: 1, heads: 2, head: 16, block: {feed_forward: 32}}",
        "common.train={max_steps: 3, batch_size: 4, warmup_steps: 1, evaluate_every: 2, precision: "
        "fp32}",
        "common.pretrain={max_steps: 2, warmup_steps: 1, evaluate_every: 2}",
        "tasks.listops.data={listops: {train: 40, valid: 8, test: 8}, max_tokens: 600}",
        "tasks.text.data.path=imdb", "tasks.retrieval.data.path=aan",
        "tasks.image.data.path=cifar10",
        "tasks.pathfinder.data.pathfinder={train: 40, valid: 8, test: 8}"})
    words.insert(words.end(), {"--set", assignment});
  const auto outcome = here.run(words);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::set<std::string> trained, baselines, published;
  for (const auto& row : json::parse(here.read("out/results.json"))) {
    const auto task = row.at("task").get<std::string>();
    const auto status = row.at("status").get<std::string>();
    if (status == "ok") trained.insert(row.at("mechanism").get<std::string>() + " on " + task);
    if (status == "baseline") baselines.insert(task);
    if (status == "published") published.insert(task);
  }
  EXPECT_EQ(trained.size(), 15u);
  const std::set<std::string> all = {"image", "listops", "pathfinder", "retrieval", "text"};
  EXPECT_EQ(baselines, all);
  EXPECT_EQ(published, all);
}

}  // namespace
}  // namespace longbow::cli
