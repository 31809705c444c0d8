#include "longbow/text/tokenizer/plain_tokenizers.h"

#include <gtest/gtest.h>

#include "longbow/core/error.h"

namespace longbow {

TEST(PlainTokenizers, TheIdOfAByteIsTheByte) {
  const auto tokenizer = byte_tokenizer({"<pad>", "<s>"});
  const auto got = tokenizer.encode("a\u00e9<s>");
  EXPECT_EQ(got.ids, (std::vector<int32_t>{0x61, 0xc3, 0xa9, 257}));
  EXPECT_EQ(got.offsets[2], (TokenOffsets{1, 2}));
  EXPECT_EQ(tokenizer.decode(got.ids), "a\u00e9");
  EXPECT_EQ(tokenizer.size(), 258u);
}

TEST(PlainTokenizers, CharactersHaveTheOrderOfTheAlphabet) {
  const auto tokenizer = character_tokenizer("ba\uac00a", {"<pad>", "<unk>"}, "<unk>");
  EXPECT_EQ(tokenizer.size(), 5u);
  EXPECT_EQ(tokenizer.encode("a\uac00 b").ids, (std::vector<int32_t>{3, 4, 1, 2}));
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{3, 4, 2}), "a\uac00b");
  EXPECT_EQ(character_tokenizer("ab", {}, "").encode("axb").ids, (std::vector<int32_t>{0, 1}));
  EXPECT_THROW(character_tokenizer("ab", {}, "<unk>"), UserError);
}

}  // namespace longbow
