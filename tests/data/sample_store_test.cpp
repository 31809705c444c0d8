#include "longbow/data/samples/sample_store.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "longbow/core/error.h"
#include "longbow/core/file.h"

namespace longbow {
namespace {

std::string folder_for(const char* name) {
  const auto folder = testing::TempDir() + "sample_store_" + name;
  std::filesystem::remove_all(folder);
  return folder;
}

std::string failure(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

void write(const std::string& folder, const SampleKind& kind, const std::vector<Sample>& samples) {
  SampleWriter writer(folder, kind);
  for (const auto& sample : samples) writer.add(sample);
  writer.finish();
}

TEST(SampleStore, GivesBackWhatWasWritten) {
  const std::vector<Sample> samples = {
      {.tokens = {5, 70000, 2}, .targets = {1}, .second = {9}, .values = {0.5F}},
      {.tokens = {}, .targets = {0}, .second = {1, 2, 3, 4}, .values = {-1}}};
  const auto folder = folder_for("back");
  write(folder, {.targets = 1, .values = 1, .has_second = true}, samples);
  const auto data = open_samples(folder);
  ASSERT_EQ(data->size(), 2);
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto got = data->get(static_cast<int64_t>(i));
    EXPECT_EQ(got.tokens, samples[i].tokens);
    EXPECT_EQ(got.second, samples[i].second);
    EXPECT_EQ(got.targets, samples[i].targets);
    EXPECT_EQ(got.values, samples[i].values);
  }
  EXPECT_EQ(data->length(0), 3);
  EXPECT_EQ(data->length(1), 4);
  EXPECT_TRUE(data->has_second());
  EXPECT_EQ(data->checksum(), SampleList(samples, false).checksum());
}

TEST(SampleStore, KeepsReferencesByteForByte) {
  const std::vector<std::string> references = {"Ein Haus.", "", std::string("\0 \n\t", 4),
                                               "ÄÖ 한국어", "x"};
  std::vector<Sample> samples;
  for (const auto& reference : references)
    samples.push_back({.tokens = {3}, .second = {4, 5}, .reference = reference});
  const auto folder = folder_for("references");
  write(folder, {.targets = 0, .has_second = true, .has_reference = true}, samples);
  const auto data = open_samples(folder);
  ASSERT_EQ(data->size(), std::ssize(references));
  for (size_t i = 0; i < references.size(); ++i)
    EXPECT_EQ(data->get(static_cast<int64_t>(i)).reference, references[i]);
  for (auto& sample : samples) sample.reference.reset();
  EXPECT_EQ(data->checksum(), SampleList(samples, false).checksum());
  const auto bare = folder_for("bare");
  write(bare, {.targets = 0, .has_second = true}, samples);
  EXPECT_EQ(open_samples(bare)->get(0).reference, std::nullopt);
}

TEST(SampleStore, AChangedReferenceIsNamed) {
  const auto folder = folder_for("changed_reference");
  write(folder, {.targets = 0, .has_reference = true}, {{.tokens = {5}, .reference = "Haus"}});
  write_file(folder + "/references", "haus");
  EXPECT_EQ(failure([&] { (void)open_samples(folder); }),
            folder +
                "/references: not what was written; remove this entry of the cache: it is made "
                "again");
}

TEST(SampleStore, RefusesASampleOfAnotherKind) {
  SampleWriter with(folder_for("kind_reference"), {.targets = 0, .has_reference = true});
  EXPECT_THROW(with.add({.tokens = {1}}), std::invalid_argument);
  SampleWriter writer(folder_for("kind"), {.targets = 1});
  EXPECT_THROW(writer.add({.tokens = {1}, .targets = {1}, .reference = "one"}),
               std::invalid_argument);
  EXPECT_THROW(writer.add({.tokens = {1}}), std::invalid_argument);
  EXPECT_THROW(writer.add({.tokens = {1}, .targets = {1}, .second = {1}}), std::invalid_argument);
}

TEST(SampleStore, AChangedFileIsNamed) {
  const auto folder = folder_for("changed");
  write(folder, {.targets = 1}, {{.tokens = {5, 6}, .targets = {1}}});
  write_file(folder + "/tokens", std::string("\x05\0\0\0\x07\0\0\0", 8));
  EXPECT_EQ(failure([&] { (void)open_samples(folder); }),
            folder +
                "/tokens: not what was written; remove this entry of the cache: it is made "
                "again");
}

TEST(SampleStore, ALostFileIsNamed) {
  const auto folder = folder_for("lost");
  write(folder, {.targets = 1}, {{.tokens = {5, 6}, .targets = {1}}});
  std::filesystem::remove(folder + "/targets");
  EXPECT_EQ(failure([&] { (void)open_samples(folder); }),
            folder + "/targets: no such file; remove this entry of the cache: it is made again");
  write_file(folder + "/samples.json", "{\"version\": 2, ");
  EXPECT_EQ(failure([&] { (void)open_samples(folder); }),
            folder +
                "/samples.json: not what was written; remove this entry of the cache: it is "
                "made again");
}

TEST(SampleStore, AnUnfinishedStoreCannotBeOpened) {
  const auto folder = folder_for("unfinished");
  {
    SampleWriter writer(folder, {.targets = 0});
    writer.add({.tokens = {1, 2}});
  }
  EXPECT_EQ(failure([&] { (void)open_samples(folder); }),
            folder +
                "/samples.json: no such file; remove this entry of the cache: it is made "
                "again");
}

std::vector<std::vector<int32_t>> windows(const std::string& folder, const WindowOptions& options) {
  const auto data = open_windows(folder, options);
  EXPECT_EQ(data->running(), options.across);
  std::vector<std::vector<int32_t>> all;
  for (int64_t i = 0; i < data->size(); ++i) {
    all.push_back(data->get(i).tokens);
    EXPECT_EQ(data->length(i), std::ssize(all.back()));
  }
  return all;
}

TEST(SampleStore, EveryTokenButTheFirstIsPredictedOnce) {
  const auto folder = folder_for("windows");
  write(folder, {.targets = 0}, {{.tokens = {1, 2, 3, 4, 5}}, {.tokens = {6}}, {.tokens = {7, 8}}});
  using Rows = std::vector<std::vector<int32_t>>;
  EXPECT_EQ(windows(folder, {.length = 4}), (Rows{{1, 2, 3, 4}, {4, 5, 6, 7}, {7, 8}}));
  EXPECT_EQ(windows(folder, {.length = 4, .across = false}), (Rows{{1, 2, 3, 4}, {4, 5}, {7, 8}}));
  EXPECT_EQ(windows(folder, {.length = 100}), (Rows{{1, 2, 3, 4, 5, 6, 7, 8}}));
}

}  // namespace
}  // namespace longbow
