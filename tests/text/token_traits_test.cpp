#include "longbow/text/tokenizer/token_traits.h"

#include <gtest/gtest.h>

#include <initializer_list>

#include "longbow/core/config.h"
#include "longbow/text/components/byte_level.h"
#include "longbow/text/components/decoders.h"
#include "longbow/text/models/bpe.h"
#include "longbow/text/models/word_level.h"
#include "longbow/text/models/word_piece.h"
#include "longbow/text/tokenizer/plain_tokenizers.h"

namespace longbow {
namespace {

std::vector<VocabularyEntry> entries_of(const std::vector<std::string>& tokens) {
  std::vector<VocabularyEntry> entries;
  for (const auto& token : tokens) entries.emplace_back(token, std::ssize(entries));
  return entries;
}
TokenDecoderPtr decoder_of(const std::string& json) {
  return read_decoder(parse_json(json, "decoder"));
}

// Bytes as a byte-level tokenizer writes them.
std::string spelled(std::initializer_list<int> bytes) {
  std::string text;
  for (const int byte : bytes) text += spelling_of_byte(static_cast<unsigned char>(byte));
  return text;
}

std::vector<int64_t> bytes_of(const Tokenizer& tokenizer) {
  std::vector<int64_t> all;
  for (const auto& traits : token_traits(tokenizer)) all.push_back(traits.bytes);
  return all;
}

// One letter for each token: s special, b begins a word, e ends one, . neither.
std::string edges_of(const Tokenizer& tokenizer) {
  std::string all;
  for (const auto& traits : token_traits(tokenizer))
    all += traits.special ? 's' : traits.begins ? 'b' : traits.ends ? 'e' : '.';
  return all;
}

TEST(TokenTraits, OfWordPieceFollowFromItsPrefix) {
  TokenizerParts parts = {
      .model = make_word_piece({}, entries_of({"[UNK]", "[CLS]", "play", "##ing", ".", "##."})),
      .decoder = decoder_of(R"({"type": "WordPiece", "prefix": "##", "cleanup": true})"),
      .added_tokens = {{.id = 1, .content = "[CLS]", .special = true}}};
  // A stop is a word of its own, although decoding with cleanup puts it beside the last one.
  EXPECT_EQ(edges_of(Tokenizer(parts)), "bsb.b.");
}

TEST(TokenTraits, OfByteLevelTokensFollowFromTheirSpace) {
  TokenizerParts parts = {
      .model = make_bpe({}, entries_of({"low", "\u0120low", "er", "\u0120", "\u00e3"}), {}),
      .decoder = decoder_of(
          R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})")};
  EXPECT_EQ(edges_of(Tokenizer(parts)), ".b.b.");
}

TEST(TokenTraits, OfMetaspaceTokensToo) {
  TokenizerParts parts = {
      .model = make_bpe({}, entries_of({"\u2581low", "low", "\u2581"}), {}),
      .decoder = decoder_of(
          R"({"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": true})")};
  EXPECT_EQ(edges_of(Tokenizer(parts)), "b.b");
}

TEST(TokenTraits, OfASuffixAreEnds) {
  TokenizerParts parts = {
      .model = make_bpe({.end_of_word_suffix = "</w>"}, entries_of({"lo", "w</w>", "er</w>"}), {}),
      .decoder = decoder_of(R"({"type": "BPEDecoder", "suffix": "</w>"})")};
  EXPECT_EQ(edges_of(Tokenizer(parts)), ".ee");
}

TEST(TokenTraits, WithoutPartsOfWordsEachTokenIsOne) {
  TokenizerParts parts = {.model = make_word_level("a", entries_of({"a", "b", "c"}))};
  EXPECT_EQ(edges_of(Tokenizer(parts)), "bbb");
}

TEST(TokenTraits, OfCharactersAndBytesAreAtWhiteSpace) {
  EXPECT_EQ(edges_of(character_tokenizer("a b.", {"[PAD]", "[UNK]"}, "[UNK]")), "ss.b..");
  const auto bytes = edges_of(byte_tokenizer({"[CLS]"}));
  EXPECT_EQ(bytes['a'], '.');
  EXPECT_EQ(bytes[' '], 'b');
  EXPECT_EQ(bytes[256], 's');
}

TEST(TokenTraits, CountTheBytesOfAText) {
  const auto bytes = token_traits(byte_tokenizer({"[CLS]"}));
  EXPECT_EQ(bytes['a'].bytes, 1);
  EXPECT_EQ(bytes[' '].bytes, 1);
  EXPECT_EQ(bytes[256].bytes, 0) << "a special token is no text";
  const auto characters = token_traits(character_tokenizer("a\uac00", {"[UNK]"}, "[UNK]"));
  EXPECT_EQ(characters[1].bytes, 1);
  EXPECT_EQ(characters[2].bytes, 3);
  TokenizerParts parts = {
      .model = make_word_piece({}, entries_of({"[UNK]", "play", "##ing"})),
      .decoder = decoder_of(R"({"type": "WordPiece", "prefix": "##", "cleanup": false})")};
  const auto pieces = token_traits(Tokenizer(parts));
  EXPECT_EQ(pieces[1].bytes, 5) << "with the blank before it";
  EXPECT_EQ(pieces[2].bytes, 3);
}

// Alone they are all shown as U+FFFD, which has three bytes. U+AC00 is ea b0 80.
TEST(TokenTraits, PartsOfACharacterHaveTheirOwnBytes) {
  const auto bytes = token_traits(byte_tokenizer({}));
  for (const size_t byte : {0x80, 0xc3, 0xea, 0xff}) EXPECT_EQ(bytes[byte].bytes, 1) << byte;
  const TokenizerParts level = {
      .model = make_bpe({},
                        entries_of({spelled({0xc3}), spelled({0xea, 0xb0}), spelled({0x80}),
                                    spelled({0xea, 0xb0, 0x80}), spelled({' ', 0xea}),
                                    spelled({0xb0, 0x80, 'a'}), spelled({0xef, 0xbf, 0xbd})}),
                        {}),
      .decoder = decoder_of(
          R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})")};
  EXPECT_EQ(bytes_of(Tokenizer(level)), (std::vector<int64_t>{1, 2, 1, 3, 2, 3, 3}));
  const TokenizerParts fallback = {
      .model = make_bpe({}, entries_of({"a", "<0xEA>", "<0x41>", "\ufffd", "\u2581b"}), {}),
      .decoder = decoder_of(
          R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]})")};
  EXPECT_EQ(bytes_of(Tokenizer(fallback)), (std::vector<int64_t>{1, 1, 1, 3, 2}));
}

}  // namespace
}  // namespace longbow
