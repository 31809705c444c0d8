#include "longbow/data/readers/symbols.h"

#include <gtest/gtest.h>

#include "longbow/data/samples/text_codec.h"
#include "longbow/text/tokenizer/plain_tokenizers.h"

namespace longbow {
namespace {

using Ids = std::vector<int32_t>;

std::string refused(const Symbols& symbols, const std::string& text) {
  try {
    symbols.read(text, {"in.txt", 3});
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Symbols, ReadAndWriteTheWordsOfTheData) {
  const Symbols symbols({"<pad>", "[MAX", "]", "7"}, 4);
  EXPECT_EQ(symbols.read("  [MAX 7\t7 ] ", {}), (Ids{1, 3, 3, 2}));
  EXPECT_EQ(symbols.read("", {}), Ids());
  EXPECT_EQ(symbols.text(std::vector<int64_t>{1, 3, 2}), "[MAX 7 ]");
  EXPECT_EQ(symbols.text(std::vector<int64_t>{1, 9}), "[MAX 9") << "an id without a name";
}

TEST(Symbols, AreIdsWhereTheDataHasNoWords) {
  const Symbols symbols({}, 12);
  EXPECT_EQ(symbols.read("3 11 1", {}), (Ids{3, 11, 1}));
  EXPECT_EQ(symbols.text(std::vector<int64_t>{3, 11}), "3 11");
  for (const auto* word : {"0", "12", "-1", "x", "3x", "99999999999"})
    EXPECT_EQ(
        refused(symbols, std::string("1 ") + word),
        std::string("in.txt:3: token 2, '") + word + "', is not an id; the data has the ids 1..11");
}

TEST(Symbols, HaveAnIdForUnknownWordsWhereTheDataHas) {
  const Symbols symbols({"<pad>", "<unk>", "a"}, 3, /*unknown=*/1);
  EXPECT_EQ(symbols.read("a b a", {}), (std::vector<int32_t>{2, 1, 2}));
}

// A model may have more ids than the data it is asked with.
TEST(Symbols, AnIdWithoutANameHasNoText) {
  const Symbols symbols({"<pad>", "a", "", "b", ""}, 5);
  EXPECT_EQ(symbols.read("b a", {}), (Ids{3, 1}));
  EXPECT_EQ(symbols.text(std::vector<int64_t>{1, 2}), "a 2");
  EXPECT_EQ(symbols.examples(), "a, b");
  EXPECT_EQ(refused(symbols, "zzzz"),
            "in.txt:3: token 1, 'zzzz', is not a symbol of the data; its symbols are a, b");
}

TEST(Symbols, OfPlainTextAreReadBesideIdsWithoutAName) {
  const auto codec =
      std::make_shared<TextCodec>(character_tokenizer("abc", {"[PAD]", "[UNK]"}, "[UNK]"));
  auto names = codec->symbols();  // [PAD] [UNK] a b c
  names.insert(names.end(), {"", "[MASK]", ""});
  const Symbols symbols(names, 8, 0, codec);
  EXPECT_EQ(symbols.read("ab[MASK]c", {}), (Ids{2, 3, 6, 4}));
  EXPECT_EQ(symbols.text(std::vector<int64_t>{2, 3, 6, 5, 4}), "ab[MASK]c");
}

TEST(Symbols, GiveExamplesOfThemselves) {
  EXPECT_EQ(Symbols({"<pad>", "a", "b"}, 3).examples(), "a, b");
  EXPECT_EQ(Symbols({}, 12).examples(), "the ids 1..11");
}

TEST(Symbols, SayWhichWordIsUnknown) {
  EXPECT_EQ(refused(Symbols({"<pad>", "word", "other"}, 3), "other wrod"),
            "in.txt:3: token 2, 'wrod', is not a symbol of the data; did you mean 'word'?");
  EXPECT_EQ(refused(Symbols({"<pad>", "a", "b"}, 3), "\x01zzzz"),
            "in.txt:3: token 1, '\\x01zzzz', is not a symbol of the data; its symbols are a, b");
  std::vector<std::string> many(20, "");
  for (size_t i = 0; i < many.size(); ++i) many[i] = "w" + std::to_string(i);
  EXPECT_EQ(
      refused(Symbols(many, 20), "some"),
      "in.txt:3: token 1, 'some', is not a symbol of the data; its symbols are w1, w2, w3, w4, "
      "w5, w6, w7, w8, …");
  EXPECT_NE(refused(Symbols({"<pad>", "a"}, 2), "<pad>"), "") << "padding is no symbol";
}

}  // namespace
}  // namespace longbow
