#include "longbow/text/formats/sentencepiece.h"

#include <gtest/gtest.h>

#include "longbow/core/file.h"
#include "longbow/text/formats/tokenizer_json.h"
#include "tests/text/vectors.h"

namespace longbow {
namespace {

EncodeOptions plain() {
  EncodeOptions options;
  options.special_text = EncodeOptions::SpecialText::plain;
  return options;
}

// A field of a message with bytes in it.
std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}
std::string varint_field(int number, int value) {
  return {static_cast<char>(number << 3), static_cast<char>(value)};
}
std::string piece(const std::string& text, int type) {
  return field(1, field(1, text) + std::string("\x15\0\0\x80\xbf", 5) + varint_field(3, type));
}

// A model of these pieces, from id 0 on. Pairs that are pieces are merged, by BPE or by Unigram.
struct Spaces {
  bool in_front = true, removed = true;
};
Tokenizer model(const std::string& pieces, int type, Spaces spaces) {
  const auto bytes = pieces + field(2, varint_field(3, type)) +
                     field(3, varint_field(3, spaces.in_front) + varint_field(4, spaces.removed));
  return parse_sentencepiece(bytes, "m.model");
}

// The ids are the same after a round trip through tokenizer.json.
void expect_ids(const Tokenizer& tokenizer, const std::string& text, std::vector<int32_t> ids) {
  EXPECT_EQ(tokenizer.encode(text, plain()).ids, ids) << "'" << text << "'";
  const auto again = parse_tokenizer_json(tokenizer_json(tokenizer), "json");
  EXPECT_EQ(again.encode(text, plain()).ids, ids) << "'" << text << "' by tokenizer.json";
}

// Ends of tokens are the recorded ones where the text is not rewritten. Beginnings differ by
// convention: SentencePiece gives no width to the space that it puts in front and to all but the
// last byte of a character.
void expect_ends(const Encoding& got, const Node& want, const std::string& what) {
  const auto& offsets = want.find("offsets")->items;
  ASSERT_EQ(got.offsets.size(), offsets.size()) << what;
  for (size_t i = 0; i < offsets.size(); ++i) {
    const auto begin = as_integer(offsets[i].items[0], what),
               end = as_integer(offsets[i].items[1], what);
    if (begin < end) EXPECT_EQ(got.offsets[i].end, end) << what << " token " << i;
  }
}

std::string marked(std::string text) {
  for (size_t at = 0; (at = text.find(' ', at)) != std::string::npos;)
    text.replace(at, 1, "\u2581");
  return text;
}

std::vector<int32_t> ids_in(const Node& line) {
  std::vector<int32_t> ids;
  for (const auto& id : line.find("ids")->items)
    ids.push_back(static_cast<int32_t>(as_integer(id, "id")));
  return ids;
}

std::string message(const std::string& bytes) {
  try {
    parse_sentencepiece(bytes, "m.model");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(SentencePiece, LinesAreEncodedAndDecodedAsRecorded) {
  size_t count = 0;
  for (const auto& folder : vector_folders())
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      if (file.path().extension() != ".model") continue;
      const auto name = file.path().stem().string();
      SCOPED_TRACE(name);
      const auto tokenizer = parse_sentencepiece(read_file(file.path().string()), name);
      const auto want = json_of(folder / (name + ".encodings.json"));
      const auto probes = probe_lines(folder);
      for (size_t i = 0; i < probes.lines.size(); ++i) {
        const auto& line = want.find("lines")->items[i];
        const auto got = tokenizer.encode(probes.lines[i], plain());
        EXPECT_EQ(got.ids, ids_in(line)) << i;
        if (line.find("normalized")->text == marked(" " + probes.lines[i]))
          expect_ends(got, line, "line " + std::to_string(i));
        EXPECT_EQ(tokenizer.decode(got.ids, Tokenizer::SpecialTokens::kept),
                  line.find("decoded")->text)
            << i;
      }
      ++count;
    }
  EXPECT_GE(count, 1u);
}

TEST(SentencePiece, IsATokenizerJsonToo) {
  const auto folder = vector_folders().front();
  const auto tokenizer =
      parse_sentencepiece(read_file((folder / "en-spm-bpe.model").string()), "model");
  const auto again = parse_tokenizer_json(tokenizer_json(tokenizer), "json");
  for (const auto& line : probe_lines(folder).lines)
    EXPECT_EQ(again.encode(line, plain()).ids, tokenizer.encode(line, plain()).ids) << line;
}

TEST(SentencePiece, SymbolsOfTheUserMayHoldSpaces) {
  const auto pieces = piece("<unk>", 2) + piece("\u2581\u2581", 4) +
                      piece("\u2581\u2581\u2581", 4) + piece("\u2581", 1) + piece("a", 1) +
                      piece("\u2581a", 1) + piece("(", 4);
  for (const int type : {1, 2}) {
    const auto none = model(pieces, type, {.in_front = false, .removed = false});
    expect_ids(none, "a a", {4, 5});
    expect_ids(none, "a  a", {4, 1, 4});
    expect_ids(none, "a   a", {4, 2, 4});
    expect_ids(none, "  a    a(a", {1, 4, 2, 5, 6, 4});
    const auto front = model(pieces, type, {.in_front = true, .removed = false});
    expect_ids(front, "a", {5});
    expect_ids(front, " a", {1, 4});
    expect_ids(front, "  a", {2, 4});
    expect_ids(front, "(", {6});
    const auto removed = model(pieces, type, {.in_front = true, .removed = true});
    expect_ids(removed, "  a   a ", {5, 5});
    expect_ids(removed, " ( ", {6});
    expect_ids(removed, " ", {});
  }
}

TEST(SentencePiece, TheSpaceInFrontComesBeforeASymbolOfTheUser) {
  const auto pieces = piece("<unk>", 2) + piece("<s>", 3) + piece("<x>", 4) + piece(".", 4) +
                      piece("\u2581", 1) + piece("a", 1) + piece("\u2581a", 1);
  for (const int type : {1, 2})
    for (const bool removed : {false, true}) {
      const auto tokenizer = model(pieces, type, {.in_front = true, .removed = removed});
      expect_ids(tokenizer, "<x>a", {4, 2, 5});
      expect_ids(tokenizer, "a<x>a <x> a", {6, 2, 5, 4, 2, 6});
      expect_ids(tokenizer, "..<x>", {4, 3, 3, 2});
      expect_ids(tokenizer, "<x>", {2});
      EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{4, 2, 5}), "<x>a");
      EXPECT_EQ(tokenizer.encode("<s><x>a").ids, (std::vector<int32_t>{1, 4, 2, 5}));
      const auto offsets = tokenizer.encode("<x>a").offsets;
      EXPECT_EQ(offsets, (std::vector<TokenOffsets>{{0, 0}, {0, 3}, {3, 4}}));
    }
}

TEST(SentencePiece, ASpaceInFrontOfATextStaysBesideItsOwn) {
  const auto pieces = piece("<unk>", 2) + piece("<s>", 3) + piece("\u2581", 1) + piece("a", 1) +
                      piece("\u2581a", 1);
  for (const int type : {1, 2}) {
    const auto kept = model(pieces, type, {.in_front = true, .removed = false});
    expect_ids(kept, "a", {4});
    expect_ids(kept, " a", {2, 4});
    expect_ids(kept, "  a a ", {2, 2, 4, 4, 2});
    expect_ids(kept, "", {});
    EXPECT_EQ(kept.encode("<s>a").ids, (std::vector<int32_t>{1, 3}));
    EXPECT_EQ(kept.encode("<s> a").ids, (std::vector<int32_t>{1, 4}));
    expect_ids(model(pieces, type, {.in_front = true, .removed = true}), "  a  a \n", {4, 4, 2, 0});
    expect_ids(model(pieces, type, {.in_front = false, .removed = false}), " a", {4});
  }
}

TEST(SentencePiece, SpecialTokensAreFoundUnlessTheTextIsPlain) {
  const auto tokenizer =
      parse_sentencepiece(piece("<unk>", 2) + piece("<s>", 3) + piece("a", 1), "m");
  EXPECT_EQ(tokenizer.encode("<s>a").ids.back(), 2);
  EXPECT_EQ(tokenizer.id_of("<s>"), 1);
  EXPECT_EQ(tokenizer.encode("<s>").ids, std::vector<int32_t>{1});
  EXPECT_EQ(tokenizer.encode("<s>", plain()).ids, std::vector<int32_t>{0});
}

TEST(SentencePiece, MistakesNameTheFile) {
  EXPECT_EQ(message(""), "m.model: a SentencePiece model without pieces");
  EXPECT_EQ(message("\x0a\x7f"
                    "abc"),
            "m.model: not a SentencePiece model, or cut off");
  EXPECT_EQ(message(field(1, field(1, "\xff"))),
            "m.model: a piece has no text, score or type that can be used");
  EXPECT_EQ(message(piece("a", 1) + field(2, varint_field(3, 3))),
            "m.model: only models of type unigram, bpe and char can be read");
  EXPECT_EQ(message(piece("a", 1) + piece("a", 1)), "m.model: token 'a' is there twice");
  EXPECT_EQ(message(piece("a", 1) + field(3, varint_field(5, 0))),
            "m.model: escape_whitespaces: false is not supported");
}

}  // namespace longbow
