#include "longbow/text/models/unigram.h"

#include <gtest/gtest.h>

#include "longbow/core/error.h"

namespace longbow {
namespace {

using Ids = std::vector<int32_t>;

Ids ids(const TokenModelPtr& model, std::string_view word) {
  ModelScratch scratch;
  std::vector<WordToken> tokens;
  model->tokenize(word, scratch, tokens);
  Ids out;
  for (const auto& token : tokens) out.push_back(token.id);
  return out;
}

const std::vector<UnigramPiece> kPieces = {{"<unk>", 0}, {"a", -1},   {"b", -1},
                                           {"ab", -1.5}, {"abc", -5}, {"c", -3}};

}  // namespace

TEST(Unigram, TheBestSumWins) {
  const auto model = make_unigram({.unk_id = 0}, kPieces);
  EXPECT_EQ(ids(model, "ab"), (Ids{3}));
  EXPECT_EQ(ids(model, "abc"), (Ids{3, 5}));  // -4.5 against -5
  EXPECT_EQ(ids(model, "ba"), (Ids{2, 1}));
}

TEST(Unigram, UnknownCharactersInARowAreOneToken) {
  const auto model = make_unigram({.unk_id = 0}, kPieces);
  EXPECT_EQ(ids(model, "axya"), (Ids{1, 0, 1}));
  EXPECT_EQ(model->text_of({0, 1, 3}, "axya"), "xy");
  EXPECT_THROW(ids(make_unigram({}, kPieces), "x"), UserError);
}

TEST(Unigram, UnknownCharactersMayBeBytes) {
  auto pieces = kPieces;
  pieces.emplace_back("<0x78>", -1);
  EXPECT_EQ(ids(make_unigram({.unk_id = 0, .byte_fallback = true}, pieces), "axx"), (Ids{1, 6, 6}));
  EXPECT_EQ(ids(make_unigram({.unk_id = 0, .byte_fallback = true}, pieces), "axy"), (Ids{1, 0}));
}

TEST(Unigram, HiddenPiecesAreNotCutInto) {
  EXPECT_EQ(ids(make_unigram({.unk_id = 0, .hidden = {3}}, kPieces), "ab"), (Ids{1, 2}));
}

}  // namespace longbow
