#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/asked.h"

namespace longbow::cli {
namespace {

const Arguments kMake = {"data",         "make",  "listops",      "--out", "data",
                         "--count",      "200",   "--seed",       "7",     "--set",
                         "min_length=5", "--set", "max_length=40"};

TEST(DataCommand, MakesFilesAManifestAndPrintsTheFolderLast) {
  const Workspace here;
  const auto outcome = here.run(kMake);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(lines_of(outcome.out).back(), "data");
  const auto train = lines_of(here.read("data/basic_train.tsv"));
  EXPECT_EQ(train.size(), 192u + 1);
  EXPECT_EQ(train.front(), "Source\tTarget");
  EXPECT_EQ(lines_of(here.read("data/basic_val.tsv")).size(), 4u + 1);
  EXPECT_EQ(lines_of(here.read("data/basic_test.tsv")).size(), 4u + 1);
  const auto manifest = nlohmann::json::parse(here.read("data/manifest.json"));
  EXPECT_EQ(manifest.at("name"), "listops");
  EXPECT_EQ(manifest.at("seed"), 7);
  EXPECT_EQ(manifest.at("files").size(), 3u);
  for (const auto& file : manifest.at("files"))
    EXPECT_EQ(file.at("sha256").get<std::string>().size(), 64u);
}

TEST(DataCommand, TheSameSeedMakesTheSameFiles) {
  const Workspace here;
  ASSERT_EQ(here.run(kMake).code, 0);
  auto again = kMake, other = kMake;
  again[4] = "again";
  other[4] = "other";
  other[8] = "8";
  ASSERT_EQ(here.run(again).code, 0);
  ASSERT_EQ(here.run(other).code, 0);
  EXPECT_EQ(here.read("again/manifest.json"), here.read("data/manifest.json"));
  EXPECT_NE(here.read("other/basic_train.tsv"), here.read("data/basic_train.tsv"));
}

TEST(DataCommand, VerifiesWhatItMadeAndFindsAChangedLabel) {
  const Workspace here;
  ASSERT_EQ(here.run(kMake).code, 0);
  const auto fine = here.run({"data", "verify", "data"});
  EXPECT_EQ(fine.code, 0);
  EXPECT_NE(fine.out.find("labels: every one recomputed\n"), std::string::npos);
  auto text = here.read("data/basic_test.tsv");
  auto& digit = text[text.size() - (text.ends_with("\r\n") ? 3 : 2)];
  digit = digit == '9' ? '0' : static_cast<char>(digit + 1);
  here.write("data/basic_test.tsv", text);
  const auto broken = here.run({"data", "verify", "data"});
  EXPECT_EQ(broken.code, 2);
  EXPECT_EQ(broken.err,
            "longbow: data/basic_test.tsv: its sha256 is not the one in manifest.json; the file "
            "was cut or changed; make it again with `longbow data make`\n");
}

TEST(DataCommand, ListsAndRemovesWhatIsCached) {
  const Workspace here;
  const std::string entry = "table-0123456789abcdef01234567",
                    draft = entry + ".0123456789abcdef.draft";
  for (const auto& name : {entry, draft}) {
    std::filesystem::create_directories(here.path("cache/" + name));
    here.write("cache/" + name + "/cache.json", "{}");
  }
  const auto cache = [&](Arguments words) {
    words.insert(words.begin(), {"data", "cache", "--folder", "cache"});
    return here.run(words);
  };
  const auto listed = cache({});
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_NE(listed.out.find(entry + "  "), std::string::npos) << listed.out;
  EXPECT_NE(listed.out.find("2 B, unfinished, written today\n"), std::string::npos) << listed.out;
  EXPECT_EQ(lines_of(listed.out).back(), "cache: 4 B in 2 entries");
  const auto unknown = cache({"--remove", "table-9"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.err,
            "longbow: the cache has no entry 'table-9'; `longbow data cache` lists them\n");
  EXPECT_EQ(lines_of(cache({"--unused", "3"}).out).back(), "cache: 4 B in 2 entries");
  EXPECT_EQ(lines_of(cache({"--remove", draft}).out).back(), "cache: 2 B in 1 entry");
  EXPECT_FALSE(here.has("cache/" + draft));
  EXPECT_EQ(lines_of(cache({"--unused", "0"}).out).back(), "cache: 0 B in 0 entries");
}

TEST(DataCommand, ListsGeneratedOwnAndPublishedData) {
  const auto outcome = Workspace().run({"data", "list"});
  EXPECT_EQ(outcome.code, 0);
  const auto at = [&](const std::string& part) {
    const auto found = outcome.out.find(part);
    EXPECT_NE(found, std::string::npos) << part << " in\n" << outcome.out;
    return found;
  };
  const auto own = at("\nYour own files\n"), published = at("\nPublished (needs files)\n");
  EXPECT_LT(at("\n  recall "), own);
  EXPECT_GT(at("\n  table "), own);
  EXPECT_LT(at("\n  table "), published);
  EXPECT_GT(at("\n  klue_nli "), published);
  for (const auto& line : lines_of(outcome.out)) EXPECT_LE(line.size(), 110u) << line;
}

TEST(DataCommand, TellsWhichFilesAPublishedDataSetNeeds) {
  const auto outcome = Workspace().run({"data", "list", "klue_nli"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(outcome.out.starts_with(
      "klue_nli   KLUE-NLI: whether a Korean sentence follows from another, 3 classes; accuracy\n"
      "objective  pairs\n"
      "licence    CC BY-SA 4.0\n"
      "published  KLUE, https://github.com/KLUE-benchmark/KLUE, in klue_benchmark/klue-nli-v1.1\n"
      "files      to be put into data.path; each may be packed as .xz or .gz\n"
      "           klue-nli-v1.1_train.json: 24,998 pairs\n"
      "           klue-nli-v1.1_dev.json: 3,000 pairs, the test split\n"
      "to begin   longbow init klue_nli\n"))
      << outcome.out;
  EXPECT_NE(outcome.out.find("\nOptions\n  valid_fraction number [default 0.05, "),
            std::string::npos)
      << outcome.out;
}

TEST(DataCommand, TellsThatGeneratedDataNeedsNoFiles) {
  const auto outcome = Workspace().run({"data", "list", "recall"});
  EXPECT_NE(outcome.out.find("files      none needed; `longbow data make recall` writes them\n"),
            std::string::npos)
      << outcome.out;
  const auto unknown = Workspace().run({"data", "list", "recal"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.err, "longbow: unknown data set 'recal'; did you mean 'recall'?\n");
}

TEST(DataCommand, StatsShowTheManifest) {
  const Workspace here;
  ASSERT_EQ(here.run(kMake).code, 0);
  const auto outcome = here.run({"data", "stats", "data"});
  EXPECT_EQ(outcome.code, 0);
  for (const auto* part : {"name: listops\n", "labels:\n", "lengths:\n", "samples: 192\n"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part;
  const auto none = here.run({"data", "stats", "nowhere"});
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.err, "longbow: nowhere: has no manifest.json; make it with `longbow data make`\n");
}

TEST(DataCommand, WritesIntoAnEmptyFolderUnlessTold) {
  const Workspace here;
  std::filesystem::create_directory(here.path("data"));
  ASSERT_EQ(here.run(kMake).code, 0);
  auto other = kMake;
  other[8] = "8";
  const auto before = here.read("data/basic_train.tsv");
  const auto refused = here.run(other);
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err,
            "longbow: data: is not empty; give another folder with --out, or --force to write "
            "into it\n");
  EXPECT_EQ(here.read("data/basic_train.tsv"), before);
  other.push_back("--force");
  ASSERT_EQ(here.run(other).code, 0);
  EXPECT_NE(here.read("data/basic_train.tsv"), before);
}

// Before any data is opened.
TEST(DataCommand, OptionsThatDoNotGoTogetherAreNamedWithTheirLine) {
  const Workspace here;
  const auto refused = [&](const std::string& config) {
    here.write("run.yaml", config);
    return error_line(here, {"train", "run.yaml", "--progress", "off"});
  };
  EXPECT_EQ(
      refused("task: listops\ndata:\n  listops:\n    min_length: 50\n    max_length: 50\n"),
      "run.yaml:5: data.listops.max_length is 50 and min_length is 50: no length lies between "
      "them; both ends are excluded");
  EXPECT_EQ(refused("task: table\ndata:\n  path: .\n  table:\n    label: ''\n"),
            "run.yaml:5: data.table.label is empty; name the column of the class, or of a number "
            "with value; to learn the texts themselves, set objective");
}

TEST(DataCommand, AWrongOptionWritesNothing) {
  const Workspace here;
  const auto outcome = here.run({"data", "make", "listops", "--out", "d", "--set", "depth=3"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(outcome.err.starts_with("longbow: --set depth: unknown key 'depth'; one of: "))
      << outcome.err;
  EXPECT_FALSE(here.has("d"));
}

}  // namespace
}  // namespace longbow::cli
