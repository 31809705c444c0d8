#include "longbow/text/unicode/aligned_text.h"

#include <gtest/gtest.h>

namespace longbow {
namespace {

AlignedText text_of(std::string_view original, size_t base = 0) {
  AlignedText text;
  text.assign(original, base, AlignedText::Alignment::kept);
  return text;
}

}  // namespace

TEST(AlignedText, BeginsAsTheOriginal) {
  const auto text = text_of("a\uac00b", 10);
  EXPECT_EQ(text.view(), "a\uac00b");
  EXPECT_EQ(text.origin(0, 5), (ByteSpan{10, 15}));
  EXPECT_EQ(text.origin(2, 3), (ByteSpan{11, 14})) << "a byte stands for its character";
}

TEST(AlignedText, BytesThatAreNotUtf8BecomeOneCharacterEach) {
  const auto text = text_of(
      "a\xff\xfe"
      "b");
  EXPECT_EQ(text.view(), "a\ufffd\ufffdb");
  EXPECT_EQ(text.origin(1, 4), (ByteSpan{1, 2}));
  EXPECT_EQ(text.origin(7, 8), (ByteSpan{3, 4}));
}

TEST(AlignedText, ReplacedInsertedAndDroppedCharactersKeepTheirPlace) {
  auto text = text_of("ab\u00e9d");
  TextRewrite rewrite(text);
  rewrite.drop_to(1);
  rewrite.replace(U'X');
  rewrite.insert(U'Y');
  rewrite.put(U'e', 0);
  rewrite.finish();
  EXPECT_EQ(text.view(), "XYed");
  EXPECT_EQ(text.origin(0, 1), (ByteSpan{1, 2}));
  EXPECT_EQ(text.origin(1, 2), (ByteSpan{1, 2}));
  EXPECT_EQ(text.origin(2, 3), (ByteSpan{2, 4}));
  EXPECT_EQ(text.origin(0, 4), (ByteSpan{1, 5}));
}

TEST(AlignedText, SeveralRewritesCompose) {
  auto text = text_of("a b");
  for (const std::string_view before : {"1", "2"}) {
    TextRewrite rewrite(text);
    rewrite.prefix(before);
    rewrite.finish();
  }
  EXPECT_EQ(text.view(), "21a b");
  EXPECT_EQ(text.origin(0, 3), (ByteSpan{0, 1}));
  EXPECT_EQ(text.origin(4, 5), (ByteSpan{2, 3}));
}

TEST(AlignedText, ARewriteThatIsNotFinishedChangesNothing) {
  auto text = text_of("abc");
  {
    TextRewrite rewrite(text);
    rewrite.replace(U'X');
  }
  EXPECT_EQ(text.view(), "abc");
  EXPECT_EQ(text.origin(1, 2), (ByteSpan{1, 2}));
}

TEST(AlignedText, PartsOfOneOriginalJoin) {
  auto text = text_of("ab");
  text.append(text_of("\uac00", 5));
  EXPECT_EQ(text.view(), "ab\uac00");
  EXPECT_EQ(text.origin(1, 2), (ByteSpan{1, 2}));
  EXPECT_EQ(text.origin(2, 5), (ByteSpan{5, 8}));
}

TEST(AlignedText, WithoutAlignmentOnlyTheTextIsKept) {
  AlignedText text;
  text.assign("abc", 0, AlignedText::Alignment::none);
  TextRewrite rewrite(text);
  rewrite.replace(U'X');
  rewrite.finish();
  EXPECT_EQ(text.view(), "Xbc");
  EXPECT_EQ(text.origin(0, 3), (ByteSpan{0, 0}));
}

}  // namespace longbow
