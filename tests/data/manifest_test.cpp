#include "longbow/data/readers/manifest.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "longbow/data/sets/listops.h"
#include "longbow/data/sets/recall.h"
#include "tests/data/folder.h"

namespace longbow {
namespace {

const std::string kHint = "; the file was cut or changed; make it again with `longbow data make`";

struct ManifestTest : testing::Test {
  ManifestTest() { write_listops(folder.str(), config, 9); }
  std::string verify_error() {
    return error_of([&] { verify(folder.str()); }, folder.str());
  }
  const ListOpsConfig config{
      .train = 12, .valid = 5, .test = 4, .min_length = 5, .max_length = 80, .max_depth = 4};
  Folder folder;
};

int64_t total(const Node& counts) {
  int64_t sum = 0;
  for (const auto& [key, count] : counts.entries) sum += as_integer(count, key);
  return sum;
}

TEST_F(ManifestTest, SaysHowTheFilesWereMadeAndWhatTheyAre) {
  auto manifest = find_manifest(folder.str()).value();
  EXPECT_EQ(manifest.name, "listops");
  EXPECT_EQ(manifest.seed, 9);
  EXPECT_EQ(manifest.version, kListOpsVersion);
  EXPECT_EQ(read<ListOpsConfig>(manifest.config).max_length, 80);
  ASSERT_EQ(manifest.files.size(), 3);
  EXPECT_EQ(manifest.files[1].name, "basic_val.tsv");
  EXPECT_EQ(manifest.files[1].samples, 5);
  EXPECT_EQ(manifest.files[1].bytes, std::ssize(folder.read("basic_val.tsv")));
  EXPECT_EQ(manifest.files[1].sha256, sha256(folder.read("basic_val.tsv")));
  EXPECT_EQ(total(manifest.labels), 21);
  EXPECT_EQ(total(manifest.lengths), 21);
  for (const auto& length : manifest.lengths.keys()) EXPECT_TRUE(length == "64" || length == "128");
}

TEST_F(ManifestTest, VerifiesWhatWasWritten) {
  auto lines = verify(folder.str());
  ASSERT_EQ(lines.size(), 5);
  auto file = find_manifest(folder.str())->files[0];
  EXPECT_EQ(lines[0], "basic_train.tsv: 12 samples, " + std::to_string(file.bytes) +
                          " bytes, sha256 " + file.sha256);
  EXPECT_EQ(lines[3], "labels: every one recomputed");
  EXPECT_EQ(lines[4], "histograms: as in manifest.json");
}

TEST_F(ManifestTest, VerifiesRecallToo) {
  Folder other;
  write_recall(other.str(), {.train = 5, .valid = 2, .test = 2}, 1);
  EXPECT_EQ(verify(other.str()).size(), 5);
}

TEST_F(ManifestTest, FindsAMissingFile) {
  std::filesystem::remove(folder.file("basic_val.tsv"));
  EXPECT_EQ(verify_error(), "basic_val.tsv: no such file; manifest.json lists it with 5 samples");
}

TEST_F(ManifestTest, FindsACutFile) {
  auto whole = folder.read("basic_val.tsv");
  folder.write("basic_val.tsv", whole.substr(0, 30));
  EXPECT_EQ(verify_error(), "basic_val.tsv: 30 bytes, but manifest.json says " +
                                std::to_string(whole.size()) + kHint);
}

TEST_F(ManifestTest, FindsAChangedByte) {
  auto text = folder.read("basic_val.tsv");
  text[text.size() - 2] = text[text.size() - 2] == '0' ? '1' : '0';
  folder.write("basic_val.tsv", text);
  EXPECT_EQ(verify_error(), "basic_val.tsv: its sha256 is not the one in manifest.json" + kHint);
}

TEST_F(ManifestTest, FindsALabelThatWasWrongFromTheStart) {
  auto text = folder.read("basic_val.tsv");
  auto& label = text[text.size() - 2];
  const std::string truth(1, label);
  label = label == '0' ? '1' : '0';
  folder.write("basic_val.tsv", text);
  auto manifest = folder.read("manifest.json");
  auto before = find_manifest(folder.str())->files[1].sha256;
  manifest.replace(manifest.find(before), before.size(), sha256(text));
  folder.write("manifest.json", manifest);
  EXPECT_EQ(verify_error(), "basic_val.tsv:6: label " + std::string(1, label) +
                                " but the expression is " + truth +
                                "; the file was changed or cut");
}

TEST_F(ManifestTest, FindsAHistogramOfOtherFiles) {
  auto text = folder.read("manifest.json");
  auto manifest = find_manifest(folder.str()).value();
  manifest.labels["0"] = Node::integer(999);
  folder.write("manifest.json", to_json(written(manifest), 2));
  EXPECT_EQ(verify_error(), "manifest.json: its labels are not those of the files" + kHint);
}

TEST_F(ManifestTest, MustListTheFiles) {
  auto manifest = find_manifest(folder.str()).value();
  manifest.files.pop_back();
  folder.write("manifest.json", to_json(written(manifest), 2));
  EXPECT_EQ(verify_error(), "manifest.json: does not list basic_test.tsv");
}

TEST_F(ManifestTest, ListsFilesBesideItOnly) {
  const auto listing = [](const std::string& name) {
    const auto text = to_json(written(Manifest{.files = {{.name = name, .samples = 1}}}));
    return error_of([&] { parse_manifest(text, "m"); });
  };
  EXPECT_EQ(listing("a.tsv"), "no error");
  EXPECT_EQ(listing("../../etc/passwd"),
            "m: lists '../../etc/passwd'; it must be a file name beside the manifest");
}

TEST_F(ManifestTest, MustBeThereAndComplete) {
  folder.write("manifest.json", folder.read("manifest.json").substr(0, 40));
  EXPECT_TRUE(verify_error().starts_with("manifest.json")) << verify_error();
  std::filesystem::remove(folder.file("manifest.json"));
  EXPECT_EQ(verify_error(),
            "manifest.json: no such file; only folders that `longbow data make` wrote can be "
            "verified");
}

TEST_F(ManifestTest, IsNotWrittenBelowAFile) {
  folder.write("file", "");
  EXPECT_EQ(error_of([&] { write_listops(folder.file("file/sub"), config, 1); }, folder.str()),
            "file/sub: the folder cannot be made; Not a directory");
}

}  // namespace
}  // namespace longbow
