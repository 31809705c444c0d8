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
        // No space is put in front of a token that the user defined.
        if (tokenizer.added_tokens().find(got.ids.empty() ? -1 : got.ids[0])) continue;
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
