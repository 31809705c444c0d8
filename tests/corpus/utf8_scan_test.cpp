#include "longbow/corpus/files/utf8_scan.h"

#include <gtest/gtest.h>

#include "longbow/core/seed.h"
#include "longbow/core/utf8.h"

namespace longbow::corpus {
namespace {

TEST(Utf8Scan, AgreesWithTheCharacterReaderOnAnyBytes) {
  const std::string pieces[] = {"a",        "plain ascii",  "é",       "한국어",   "€",
                                "😀",        "\xff",         "\xc3",    "\xed\xa0", "\xe0\x9f",
                                "\xf4\x90", "\xf0\x9f\x98", "\xc0\x80"};
  for (uint64_t i = 0; i < 5000; ++i) {
    auto stream = Stream(1, "utf8").at(i);
    std::string text;
    for (int64_t n = stream.below(12); n >= 0; --n)
      text += pieces[stream.below(std::ssize(pieces))];
    const auto wanted = std::min(find_invalid_utf8(text), text.size());
    ASSERT_EQ(plain_utf8_prefix(text), wanted) << string_literal(text);
  }
}

TEST(Utf8Scan, StopsAtANulByteWhereverItIs) {
  for (size_t at = 0; at < 40; ++at) {
    std::string text(40, 'x');
    text[at] = '\0';
    EXPECT_EQ(plain_utf8_prefix(text), at);
  }
}

TEST(Utf8Scan, TellsACutCharacterFromAMalformedOne) {
  const auto piece = [](std::string_view text) {
    const auto found = utf8_piece(text, 0);
    return std::pair(found.state, found.bytes);
  };
  EXPECT_EQ(piece("😀"), std::pair(Utf8State::valid, size_t{4}));
  EXPECT_EQ(piece("\xf0\x9f\x98"), std::pair(Utf8State::cut, size_t{3}));
  EXPECT_EQ(piece("\xe2"), std::pair(Utf8State::cut, size_t{1}));
  EXPECT_EQ(piece("\xf0\x9f\x98!"), std::pair(Utf8State::malformed, size_t{3}));
  EXPECT_EQ(piece("\xed\xa0\x80"), std::pair(Utf8State::malformed, size_t{1})) << "a surrogate";
  EXPECT_EQ(piece("\xc0\x80"), std::pair(Utf8State::malformed, size_t{1})) << "overlong";
  EXPECT_EQ(piece("\xf4\x90\x80\x80"), std::pair(Utf8State::malformed, size_t{1}));
  EXPECT_EQ(piece("\x80"), std::pair(Utf8State::malformed, size_t{1}));
}

TEST(Utf8Scan, CountsCodePoints) {
  EXPECT_EQ(count_characters("aé한😀"), 4u);
  EXPECT_EQ(count_characters(""), 0u);
}

}  // namespace
}  // namespace longbow::corpus
