#include "tests/text/vectors.h"

#include <gtest/gtest.h>

#include "longbow/core/file.h"
#include "tests/support/parity.h"

namespace longbow {
namespace {

template <class T>
void expect_integers(const std::vector<T>& got, const Node* want, const std::string& what) {
  if (!want) return;
  std::vector<int64_t> left(got.begin(), got.end()), right;
  for (const auto& item : want->items) right.push_back(as_integer(item, what));
  EXPECT_EQ(left, right) << what;
}

}  // namespace

std::vector<std::filesystem::path> vector_folders() {
  std::vector<std::filesystem::path> folders = {parity_file("tokenizers")};
  const auto collection = parity_collection() / "tokenizers";
  if (std::filesystem::exists(collection)) folders.push_back(collection);
  return folders;
}

Node json_of(const std::filesystem::path& file) {
  return parse_json(read_file(file.string()), file.filename().string());
}

ProbeLines probe_lines(const std::filesystem::path& folder) {
  const auto node = json_of(folder / "lines.json");
  ProbeLines out;
  for (const auto& line : node.find("lines")->items) out.lines.push_back(line.text);
  for (const auto& pair : node.find("pairs")->items)
    out.pairs.emplace_back(pair.items[0].text, pair.items[1].text);
  return out;
}

void expect_encoding(const Encoding& got, const Node& want, const std::string& what) {
  expect_integers(got.ids, want.find("ids"), what + ": ids");
  if (const auto* tokens = want.find("tokens")) {
    std::vector<std::string> texts;
    for (const auto& token : tokens->items) texts.push_back(token.text);
    EXPECT_EQ(got.tokens, texts) << what;
  }
  if (const auto* offsets = want.find("offsets")) {
    std::vector<std::pair<int64_t, int64_t>> left, right;
    for (const auto& place : got.offsets) left.emplace_back(place.begin, place.end);
    for (const auto& place : offsets->items)
      right.emplace_back(as_integer(place.items[0], what), as_integer(place.items[1], what));
    EXPECT_EQ(left, right) << what << ": offsets";
  }
  expect_integers(got.type_ids, want.find("type_ids"), what + ": type_ids");
  const auto* special = want.find("special_tokens_mask");
  expect_integers(got.special_tokens_mask, special, what + ": special_tokens_mask");
  if (!special) EXPECT_EQ(got.special_tokens_mask, std::vector<uint8_t>(got.size(), 0)) << what;
  const auto* attention = want.find("attention_mask");
  expect_integers(got.attention_mask, attention, what + ": attention_mask");
  if (!attention) EXPECT_EQ(got.attention_mask, std::vector<uint8_t>(got.size(), 1)) << what;
}

}  // namespace longbow
