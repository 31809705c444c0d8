#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "longbow/data/sets/listops.h"
#include "tests/data/folder.h"
#include "tests/data/mutation.h"

namespace longbow {
namespace {

const ListOpsConfig kSmall{
    .train = 12, .valid = 5, .test = 4, .min_length = 5, .max_length = 40, .max_depth = 4};

std::string with_rows(const std::string& rows) {
  return "Source\tTarget\n" + rows;
}

std::string error(const std::string& contents) {
  return error_of([&] { parse_listops(contents, "basic_val.tsv"); });
}

void expect_equal(const Splits& a, const Splits& b) {
  for (const auto* name : {"train", "valid", "test"})
    EXPECT_EQ(a.checksums.at(name), b.checksums.at(name));
}

// What the reader may accept of `text`: one spelling for equal tables.
std::string canonical(const std::string& text) {
  std::string result;
  for (auto byte : text) {
    bool blank_repeats =
        byte == ' ' && (result.empty() || result.back() == ' ' || result.back() == '\n');
    if (blank_repeats) continue;
    bool blank_ends = (byte == '\t' || byte == '\n') && !result.empty() && result.back() == ' ';
    if (blank_ends) result.pop_back();
    if (byte == '\n' && !result.empty() && result.back() == '\r') result.pop_back();
    result += byte;
  }
  if (result.ends_with('\r')) result.pop_back();
  if (!result.ends_with('\n')) result += '\n';
  return result;
}

std::string rewritten(const std::vector<LabelledExpression>& rows) {
  auto text = with_rows("");
  for (const auto& row : rows)
    text += row.expression.text() + "\t" + std::to_string(row.expression.value()) + "\n";
  return text;
}

TEST(ListOpsFiles, ReadBackAsTheyWereMade) {
  Folder folder;
  write_listops(folder.str(), kSmall, 7);
  auto loaded = load_listops(folder.str());
  auto made = make_listops(kSmall, 7);
  expect_equal(loaded, made);
  EXPECT_EQ(loaded.max_length, made.max_length);
  EXPECT_EQ(loaded.vocabulary, 16);
  EXPECT_EQ(loaded.checksums.at("basic_val.tsv"), sha256_of_file(folder.file("basic_val.tsv")));
  EXPECT_TRUE(folder.read("basic_test.tsv").starts_with("Source\tTarget\n( ("));
}

TEST(ListOpsFiles, MayEndTheirLinesInCrlf) {
  Folder folder;
  write_listops(folder.str(), kSmall, 7);
  auto before = load_listops(folder.str());
  std::filesystem::remove(folder.file("manifest.json"));
  for (const auto* name : {"basic_train.tsv", "basic_val.tsv", "basic_test.tsv"}) {
    std::string crlf;
    for (auto byte : folder.read(name)) crlf += byte == '\n' ? "\r\n" : std::string(1, byte);
    folder.write(name, crlf);
  }
  expect_equal(load_listops(folder.str()), before);
}

TEST(ListOpsFiles, AreCutOnTheRightAndCounted) {
  Folder folder;
  write_listops(folder.str(), kSmall, 7);
  auto whole = load_listops(folder.str()), cut = load_listops(folder.str(), 10);
  EXPECT_EQ(cut.max_length, 10);
  int64_t longer = 0;
  for (const auto* split : {&whole.train, &whole.valid, &whole.test})
    for (int64_t i = 0; i < (*split)->size(); ++i) longer += (*split)->length(i) > 10;
  EXPECT_GT(longer, 0);
  EXPECT_EQ(cut.truncated, longer);
}

TEST(ListOpsFiles, SayWhichLineIsMalformed) {
  const std::string good = "( ( ( [MAX 2 ) 9 ) ] )\t9\n";
  EXPECT_EQ(error(with_rows(good + "( ( ( [MAX 2 ) 9 ) ] )\t8\n")),
            "basic_val.tsv:3: label 8 but the expression is 9; the file was changed or cut");
  EXPECT_EQ(error(with_rows(good + "( ( ( [MAX 2 ) 9 ) ] )\t10\n")),
            "basic_val.tsv:3: label '10' is not a digit 0-9");
  EXPECT_EQ(error(with_rows(good + "( ( ( [MAX 2 ) 9 ) ] )\tx\n")),
            "basic_val.tsv:3: label 'x' is not a digit 0-9");
  EXPECT_EQ(
      error(with_rows("( ( ( [MAX 2 ) 9 ) ]\t9\n")),
      "basic_val.tsv:2: unbalanced expression: ')' expected, its end found (word 10); expected "
      "a form like ( ( ( [MAX 2 ) 9 ) ] )");
  EXPECT_EQ(
      error(with_rows("( ( ( [AVG 2 ) 9 ) ] )\t9\n")),
      "basic_val.tsv:2: unknown symbol '[AVG' (word 4); expected a form like ( ( ( [MAX 2 ) 9 ) "
      "] )");
  EXPECT_EQ(error(with_rows(good + "( ( ( [MAX 2 ) 9")),
            "basic_val.tsv:3: one column, expected two with a tab between them; the file seems cut "
            "off here");
}

TEST(ListOpsFiles, NameTheFileThatIsMissing) {
  Folder folder;
  const std::string all = "hold basic_train.tsv, basic_val.tsv and basic_test.tsv";
  EXPECT_EQ(error_of([&] { load_listops(folder.file("no")); }, folder.str()),
            "no: no such folder; it should " + all);
  write_listops(folder.str(), kSmall, 7);
  std::filesystem::remove(folder.file("basic_val.tsv"));
  EXPECT_EQ(error_of([&] { load_listops(folder.str()); }, folder.str()),
            "basic_val.tsv: no such file; the folder should " + all);
}

TEST(ListOpsFiles, MustHaveTheSamplesOfTheirManifest) {
  Folder folder;
  write_listops(folder.str(), kSmall, 7);
  const auto whole = folder.read("basic_val.tsv");
  const std::string hint = "; the file was cut or changed; make it again with `longbow data make`";
  auto without_last_line = whole.substr(0, whole.rfind('\n', whole.size() - 2) + 1);
  folder.write("basic_val.tsv", without_last_line);
  EXPECT_EQ(error_of([&] { load_listops(folder.str()); }, folder.str()),
            "basic_val.tsv: 4 samples, but manifest.json says 5" + hint);
  folder.write("basic_val.tsv", whole.substr(0, whole.size() - 1));
  EXPECT_EQ(error_of([&] { load_listops(folder.str()); }, folder.str()),
            "basic_val.tsv: its sha256 is not the one in manifest.json" + hint);
}

TEST(ListOpsFiles, WarnWhenNothingTellsThatTheyAreComplete) {
  Folder folder;
  write_listops(folder.str(), kSmall, 7);
  testing::internal::CaptureStderr();
  load_listops(folder.str());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  std::filesystem::remove(folder.file("manifest.json"));
  testing::internal::CaptureStderr();
  load_listops(folder.str());
  EXPECT_NE(
      testing::internal::GetCapturedStderr().find(
          folder.str() + ": 12 training, 5 validation and 4 test samples, and no manifest.json "
                         "to compare with; the official files have 96000, 2000 and 2000"),
      std::string::npos);
}

TEST(ListOpsFiles, AreReadExactlyOrRefusedAfterAnyAccident) {
  Folder folder;
  write_listops(folder.str(), kSmall, 7);
  const auto whole = folder.read("basic_train.tsv");
  int refused = 0, accepted = 0;
  for (uint64_t i = 0; i < 20000; ++i) {
    auto text = mutated(whole, Stream(1, "accident").at(i));
    auto message = error_of([&] {
      auto rows = parse_listops(text, "f.tsv");
      ASSERT_EQ(rewritten(rows), canonical(text));
      for (const auto& row : rows) ASSERT_EQ(row.label, row.expression.value());
    });
    if (message == "no error") {
      ++accepted;
      continue;
    }
    ++refused;
    ASSERT_TRUE(message.starts_with("f.tsv:")) << message;
    ASSERT_EQ(message.find_first_of("\r\n"), std::string::npos) << message;
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(accepted, 100);
}

TEST(ListOpsFiles, AreNeverReadAfterAnAccidentWhenTheirManifestIsThere) {
  Folder folder;
  write_listops(folder.str(), kSmall, 7);
  const auto whole = folder.read("basic_test.tsv");
  auto refuses = [&](const std::string& text) {
    folder.write("basic_test.tsv", text);
    return error_of([&] { load_listops(folder.str()); }) != "no error";
  };
  for (size_t cut = 0; cut < whole.size(); cut += 7) EXPECT_TRUE(refuses(whole.substr(0, cut)));
  for (uint64_t i = 0; i < 300; ++i) {
    auto text = mutated(whole, Stream(2, "accident").at(i));
    if (text != whole) {
      EXPECT_TRUE(refuses(text));
    }
  }
}

// The 10,000 test rows of the original data set, where the checkout has them.
std::string original_rows() {
  const std::string path = LONGBOW_SOURCE_DIR "/../shared/data/listops/test_d20s.tsv.xz";
  if (!std::filesystem::exists(path)) return "";
  std::string contents;
  FILE* pipe = popen(("xz -dc '" + path + "' 2>/dev/null").c_str(), "r");
  if (!pipe) return "";
  char block[65536];
  while (auto bytes = fread(block, 1, sizeof block, pipe)) contents.append(block, bytes);
  return pclose(pipe) == 0 ? contents : "";
}

TEST(ListOpsFiles, AgreeWithTheTenThousandOriginalLabels) {
  auto contents = original_rows();
  if (contents.empty()) GTEST_SKIP() << "shared/data/listops/test_d20s.tsv.xz or xz is not here";
  std::vector<int> labels(10);
  std::string again;
  size_t longest = 0;
  int count = 0;
  std::istringstream lines(contents);
  for (std::string line; std::getline(lines, line); ++count) {
    // Its columns are the other way round: label, tab, expression.
    const auto expression = parse_expression(line.substr(2), {"test_d20s.tsv", count + 1});
    ++labels[static_cast<size_t>(expression.value())];
    longest = std::max(longest, expression.symbols.size());
    again += std::to_string(expression.value()) + "\t" + expression.text() + "\n";
    auto tokens = expression.tokens();
    ASSERT_EQ(expression_of(tokens), expression);
  }
  EXPECT_EQ(count, 10000);
  EXPECT_EQ(labels, (std::vector<int>{1127, 1038, 967, 978, 991, 969, 895, 930, 964, 1141}));
  EXPECT_EQ(longest, 939);
  EXPECT_EQ(again, contents);
}

}  // namespace
}  // namespace longbow
