#include "longbow/text/formats/sentencepiece.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "longbow/core/utf8.h"
#include "longbow/text/components/component.h"
#include "longbow/text/components/decoders.h"
#include "longbow/text/components/normalizers.h"
#include "longbow/text/components/pre_tokenizers.h"
#include "longbow/text/components/precompiled.h"
#include "longbow/text/formats/wire.h"
#include "longbow/text/models/bpe.h"
#include "longbow/text/models/unigram.h"
#include "longbow/text/unicode/regex.h"
#include "longbow/text/unicode/well_formed.h"

namespace longbow {
namespace {

constexpr const char* kSpaceMark = "\u2581";
constexpr size_t kLongestPiece = 512;  // bytes; finding the merges of a piece takes their square

enum class PieceType { normal = 1, unknown, control, user_defined, unused, byte };
enum class ModelType { unigram = 1, bpe, word, character };

struct ScoredPiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::normal;
};

struct SentencePieceFile {
  std::vector<ScoredPiece> pieces;
  ModelType type = ModelType::unigram;
  bool byte_fallback = false, whitespace_as_suffix = false;
  std::string charsmap;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;

  bool has_symbols() const {
    return std::any_of(pieces.begin(), pieces.end(), [](const ScoredPiece& piece) {
      return piece.type == PieceType::user_defined;
    });
  }
};

ScoredPiece read_piece(std::string_view bytes, const std::string& name) {
  ScoredPiece piece;
  WireReader reader(bytes, name);
  for (WireField field; reader.next(field);) {
    if (field.number == 1) piece.text = field.bytes;
    if (field.number == 2) piece.score = field.as_float();
    if (field.number == 3) piece.type = static_cast<PieceType>(std::min<uint64_t>(field.value, 7));
  }
  const bool is_known = piece.type >= PieceType::normal && piece.type <= PieceType::byte;
  const bool is_text = !piece.text.empty() && piece.text.size() <= kLongestPiece &&
                       find_invalid_utf8(piece.text) == std::string::npos;
  if (!is_known || !is_text || !std::isfinite(piece.score))
    throw UserError(Place{name, 0}, "a piece has no text, score or type that can be used");
  return piece;
}

void read_trainer(std::string_view bytes, const std::string& name, SentencePieceFile& file) {
  WireReader reader(bytes, name);
  for (WireField field; reader.next(field);) {
    if (field.number == 3) file.type = static_cast<ModelType>(std::min<uint64_t>(field.value, 5));
    if (field.number == 24) file.whitespace_as_suffix = field.value != 0;
    if (field.number == 35) file.byte_fallback = field.value != 0;
  }
}

void read_normalization(std::string_view bytes, const std::string& name, SentencePieceFile& file) {
  WireReader reader(bytes, name);
  for (WireField field; reader.next(field);) {
    if (field.number == 2) file.charsmap = field.bytes;
    if (field.number == 3) file.add_dummy_prefix = field.value != 0;
    if (field.number == 4) file.remove_extra_whitespaces = field.value != 0;
    if (field.number == 5) file.escape_whitespaces = field.value != 0;
  }
}

SentencePieceFile read_parts(const std::string& bytes, const std::string& name) {
  SentencePieceFile file;
  WireReader reader(bytes, name);
  for (WireField field; reader.next(field);) {
    if (field.number == 1) file.pieces.push_back(read_piece(field.bytes, name));
    if (field.number == 2) read_trainer(field.bytes, name, file);
    if (field.number == 3) read_normalization(field.bytes, name, file);
  }
  const auto refuse = [&](const std::string& what) { throw UserError(Place{name, 0}, what); };
  if (file.pieces.empty()) refuse("a SentencePiece model without pieces");
  if (file.whitespace_as_suffix) refuse("treat_whitespace_as_suffix is not supported");
  if (!file.escape_whitespaces) refuse("escape_whitespaces: false is not supported");
  return file;
}

Node replacement(const char* kind, const std::string& pattern, const std::string& content) {
  return component_node("Replace", {{"pattern", Node::map({{kind, Node::string(pattern)}})},
                                    {"content", Node::string(content)}});
}

NormalizerPtr sequence_of(const Node& steps) {
  if (steps.items.empty()) return nullptr;
  return read_normalizer(component_node("Sequence", {{"normalizers", steps}}));
}

// Before any text but an empty one and those of the symbols, which are normalized like any text to
// be found in one.
Node mark_in_front(const SentencePieceFile& file, const NormalizerPtr& before) {
  std::string symbols;
  for (const auto& piece : file.pieces) {
    if (piece.type != PieceType::user_defined) continue;
    AlignedText text;
    text.assign(piece.text, 0, AlignedText::Alignment::none);
    if (before) before->apply(text);
    symbols += (symbols.empty() ? "" : "|") + Regex::escaped(text.view());
  }
  return replacement("Regex", "\\A(?!(?:" + symbols + ")?\\z)", kSpaceMark);
}

// User-defined symbols may hold marks of spaces, and the mark in front of a text stands before
// them. So a model that has such symbols has its marks written here, before symbols are looked for;
// otherwise the pre-tokenizer writes them.
NormalizerPtr normalizer_of(const SentencePieceFile& file) {
  auto steps = Node::list();
  if (!file.charsmap.empty())
    steps.items.push_back(component_node(
        "Precompiled", {{"precompiled_charsmap", Node::string(base64_of(file.charsmap))}}));
  const bool has_symbols = file.has_symbols();
  if (file.remove_extra_whitespaces) {
    // Where the pre-tokenizer writes the mark in front, spaces there stay as one, which becomes it.
    const bool becomes_mark = file.add_dummy_prefix && !has_symbols;
    steps.items.push_back(replacement("Regex", becomes_mark ? " +\\z" : "\\A +| +\\z", ""));
    steps.items.push_back(replacement("Regex", " {2,}", " "));
  }
  if (has_symbols || (file.add_dummy_prefix && !file.remove_extra_whitespaces))
    steps.items.push_back(replacement("String", " ", kSpaceMark));
  if (has_symbols && file.add_dummy_prefix)
    steps.items.push_back(mark_in_front(file, sequence_of(steps)));
  return sequence_of(steps);
}

Node metaspace(const std::string& mark, const char* prepend_scheme, bool splits) {
  return component_node("Metaspace", {{"replacement", Node::string(mark)},
                                      {"prepend_scheme", Node::string(prepend_scheme)},
                                      {"split", Node::boolean(splits)}});
}

// Words may be cut one by one when no piece goes on after a space.
PreTokenizerPtr pre_tokenizer_of(const SentencePieceFile& file) {
  const bool splits = std::none_of(file.pieces.begin(), file.pieces.end(), [](const auto& piece) {
    return piece.type == PieceType::normal && piece.text.find(kSpaceMark, 1) != std::string::npos;
  });
  if (!file.add_dummy_prefix || file.has_symbols())
    return read_pre_tokenizer(metaspace(kSpaceMark, "never", splits));
  if (file.remove_extra_whitespaces)
    return read_pre_tokenizer(metaspace(kSpaceMark, "first", splits));
  // A space in front, which is a mark already, has the mark of the text before it. Metaspace would
  // not put a mark before another, but it does put a space there.
  return read_pre_tokenizer(component_node(
      "Sequence", {{"pretokenizers", Node::list({metaspace(" ", "first", false),
                                                 metaspace(kSpaceMark, "never", splits)})}}));
}

TokenDecoderPtr decoder_of(const SentencePieceFile& file, const std::string& unknown) {
  auto steps = Node::list();
  steps.items.push_back(replacement("String", unknown, " \u2047 "));
  steps.items.push_back(replacement("String", kSpaceMark, " "));
  steps.items.push_back(component_node("ByteFallback"));
  steps.items.push_back(component_node("Fuse"));
  if (file.add_dummy_prefix)
    steps.items.push_back(component_node(
        "Strip",
        {{"content", Node::string(" ")}, {"start", Node::integer(1)}, {"stop", Node::integer(0)}}));
  return read_decoder(component_node("Sequence", {{"decoders", std::move(steps)}}));
}

bool is_spelled(const ScoredPiece& piece) {
  return piece.type == PieceType::normal || piece.type == PieceType::unused;
}

// SentencePiece merges the neighbours whose joint text has the best score; a list of merges says
// the same when each piece comes with all pairs of pieces that make it.
std::vector<BpeMerge> merges_of(const SentencePieceFile& file, const TokenVocabulary& vocabulary) {
  std::vector<size_t> order;
  for (size_t i = 0; i < file.pieces.size(); ++i)
    if (is_spelled(file.pieces[i])) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return file.pieces[a].score > file.pieces[b].score; });
  const auto spelled = [&](std::string_view text) {
    const auto id = vocabulary.id_of(text);
    return id >= 0 && is_spelled(file.pieces[static_cast<size_t>(id)]);
  };
  std::vector<BpeMerge> merges;
  for (const size_t i : order) {
    const std::string_view text = file.pieces[i].text;
    for (size_t at = 1; at < text.size(); ++at) {
      if (!unicode::is_boundary(text, at)) continue;
      const auto left = text.substr(0, at), right = text.substr(at);
      if (spelled(left) && spelled(right)) merges.emplace_back(left, right);
    }
  }
  return merges;
}

TokenModelPtr bpe_of(const SentencePieceFile& file, const std::string* unknown) {
  std::vector<VocabularyEntry> entries;
  for (const auto& piece : file.pieces)
    entries.emplace_back(piece.text, static_cast<int32_t>(entries.size()));
  BpeOptions options;
  if (unknown) options.unk_token = *unknown;
  options.fuse_unk = true;
  options.byte_fallback = file.byte_fallback;
  const TokenVocabulary vocabulary(entries);
  return make_bpe(
      std::move(options), entries,
      file.type == ModelType::bpe ? merges_of(file, vocabulary) : std::vector<BpeMerge>());
}

TokenModelPtr unigram_of(const SentencePieceFile& file) {
  UnigramOptions options;
  options.byte_fallback = file.byte_fallback;
  std::vector<UnigramPiece> pieces;
  for (const auto& piece : file.pieces) {
    const auto id = pieces.size();
    if (piece.type == PieceType::unknown) options.unk_id = id;
    if (!is_spelled(piece)) options.hidden.push_back(static_cast<int32_t>(id));
    pieces.emplace_back(piece.text, static_cast<double>(piece.score));
  }
  return make_unigram(options, pieces);
}

std::vector<AddedToken> added_tokens_of(const SentencePieceFile& file) {
  std::vector<AddedToken> tokens;
  for (size_t i = 0; i < file.pieces.size(); ++i) {
    const auto& piece = file.pieces[i];
    AddedToken token;
    token.id = static_cast<int32_t>(i);
    token.content = piece.text;
    token.special = piece.type == PieceType::control || piece.type == PieceType::unknown;
    token.normalized = piece.type == PieceType::user_defined;
    if (token.special || token.normalized) tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace

Tokenizer parse_sentencepiece(const std::string& bytes, const std::string& name) {
  const auto file = read_parts(bytes, name);
  const auto unknown = std::find_if(file.pieces.begin(), file.pieces.end(), [](const auto& piece) {
    return piece.type == PieceType::unknown;
  });
  const bool has_unknown = unknown != file.pieces.end();
  try {
    TokenizerParts parts;
    parts.normalizer = normalizer_of(file);
    parts.pre_tokenizer = pre_tokenizer_of(file);
    if (file.type == ModelType::unigram)
      parts.model = unigram_of(file);
    else if (file.type == ModelType::bpe || file.type == ModelType::character)
      parts.model = bpe_of(file, has_unknown ? &unknown->text : nullptr);
    else
      throw UserError("only models of type unigram, bpe and char can be read");
    parts.decoder = decoder_of(file, has_unknown ? unknown->text : "<unk>");
    parts.added_tokens = added_tokens_of(file);
    return Tokenizer(std::move(parts));
  } catch (const UserError& error) {
    throw UserError(Place{name, 0}, error.what());
  }
}

}  // namespace longbow
