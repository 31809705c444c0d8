#include "longbow/text/components/decoders.h"

#include <gtest/gtest.h>

namespace longbow {
namespace {

using Texts = std::vector<std::string>;

Texts decoded(const std::string& json, Texts tokens) {
  read_decoder(parse_json(json, "t.json"))->decode(tokens);
  return tokens;
}

std::string sequence(const std::string& steps) {
  return R"({"type":"Sequence","decoders":[)" + steps + "]}";
}

}  // namespace

TEST(TextDecoders, WordPieceJoinsAndCleansUp) {
  EXPECT_EQ(decoded(R"({"type":"WordPiece","prefix":"##","cleanup":true})",
                    {"do", "##n", "'s", ".", "##x"}),
            (Texts{"do", "n", "'s", ".", "x"}));
  EXPECT_EQ(decoded(R"({"type":"WordPiece","prefix":"##","cleanup":false})", {"a", "."}),
            (Texts{"a", " ."}));
}

TEST(TextDecoders, ByteLevelShowsBrokenBytes) {
  const std::string json = R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true})";
  EXPECT_EQ(decoded(json, {"a\u0120", "\u00c3\u00a9"}), (Texts{"a \u00e9"}));
  // A character that is cut off is one U+FFFD, a stray byte another.
  EXPECT_EQ(decoded(json, {"\u00ed\u0137", "b", "\u00a9"}), (Texts{"\ufffdb\ufffd"}));
  EXPECT_EQ(decoded(json, {"\uac00"}), (Texts{"\uac00"})) << "not of the alphabet";
}

TEST(TextDecoders, BytesFallBackTogether) {
  EXPECT_EQ(decoded(R"({"type":"ByteFallback"})", {"<0xC3>", "<0xA9>", "a", "<0xFF>", "<0x41>"}),
            (Texts{"\u00e9", "a", "\ufffd", "\ufffd"}));
}

TEST(TextDecoders, TheFirstMarkIsNoSpace) {
  const auto metaspace = [](const std::string& scheme) {
    return R"({"type":"Metaspace","replacement":"_","prepend_scheme":")" + scheme +
           R"(","split":true})";
  };
  EXPECT_EQ(decoded(metaspace("always"), {"_a", "_b"}), (Texts{"a", " b"}));
  EXPECT_EQ(decoded(metaspace("never"), {"_a", "_b"}), (Texts{" a", " b"}));
}

TEST(TextDecoders, SuffixesStripAndReplace) {
  EXPECT_EQ(decoded(R"({"type":"BPEDecoder","suffix":"</w>"})", {"a</w>", "b</w>"}),
            (Texts{"a ", "b"}));
  EXPECT_EQ(
      decoded(sequence(R"({"type":"Replace","pattern":{"String":"_"},"content":" "},)"
                       R"({"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":1})"),
              {"__a", "_b_"}),
      (Texts{" a b"}));
  EXPECT_EQ(
      decoded(R"({"type":"CTC","pad_token":"<pad>","word_delimiter_token":"|","cleanup":true})",
              {"a", "a", "<pad>", "a", "|"}),
      (Texts{"a", "a", " "}));
}

TEST(TextDecoders, MistakesNameFileAndComponent) {
  try {
    decoded(R"({"type":"WordPeice"})", {});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "t.json:1: unknown decoder 'WordPeice'; did you mean 'WordPiece'?");
  }
}

}  // namespace longbow
