#include "longbow/text/trainers/train_tokenizer.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "longbow/core/error.h"
#include "longbow/core/utf8.h"
#include "longbow/text/components/byte_level.h"
#include "longbow/text/models/bpe.h"
#include "longbow/text/models/unigram.h"
#include "longbow/text/models/word_level.h"
#include "longbow/text/models/word_piece.h"
#include "longbow/text/trainers/preset.h"
#include "longbow/text/trainers/unigram_trainer.h"
#include "longbow/text/trainers/word_level_trainer.h"

namespace longbow {
namespace {

using Kind = TokenizerKind;
using Words = std::vector<WordCount>;

std::u32string codes_of(const std::string& text) {
  std::u32string codes;
  for (size_t at = 0; at < text.size();) {
    const auto character = utf8_at(text, at);
    codes.push_back(character.code);
    at += character.bytes;
  }
  return codes;
}

std::u32string byte_alphabet() {
  std::u32string codes;
  for (int byte = 0; byte < 256; ++byte)
    codes.push_back(character_of_byte(static_cast<unsigned char>(byte)));
  return codes;
}

std::vector<VocabularyEntry> entries_of(std::vector<std::string> tokens) {
  std::vector<VocabularyEntry> entries;
  entries.reserve(tokens.size());
  for (auto& token : tokens)
    entries.emplace_back(std::move(token), static_cast<int32_t>(entries.size()));
  return entries;
}

std::optional<std::string> unless_empty(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

TokenModelPtr merged_model(const TrainTokenizerOptions& options, const Words& words,
                           const TrainerProgress& progress) {
  const auto limit = *options.limit_alphabet;
  const bool is_bytes = options.kind == Kind::byte_bpe;
  auto trained = train_bpe(
      words,
      {.vocabulary = *options.vocabulary,
       .min_frequency = *options.min_frequency,
       .special_tokens = *options.special_tokens,
       .limit_alphabet = limit > 0 ? std::optional(limit) : std::nullopt,
       .initial_alphabet = is_bytes ? byte_alphabet() : codes_of(*options.initial_alphabet),
       .continuing_prefix = *options.continuing_prefix,
       .end_of_word_suffix = *options.end_of_word_suffix,
       .max_token_length = options.max_token_length},
      progress);
  if (options.kind == Kind::wordpiece)
    return make_word_piece({.unk_token = *options.unknown_token,
                            .continuing_subword_prefix = *options.continuing_prefix},
                           entries_of(std::move(trained.tokens)));
  std::vector<BpeMerge> merges;
  merges.reserve(trained.merges.size());
  for (const auto& [left, right] : trained.merges)
    merges.emplace_back(trained.tokens[left], trained.tokens[right]);
  BpeOptions model;
  model.unk_token = options.unknown_token;
  model.end_of_word_suffix = unless_empty(*options.end_of_word_suffix);
  return make_bpe(std::move(model), entries_of(std::move(trained.tokens)), merges);
}

TokenModelPtr unigram_model(const TrainTokenizerOptions& options, const Words& words,
                            const TrainerProgress& progress) {
  auto trained = train_unigram(words,
                               {.vocabulary = *options.vocabulary,
                                .special_tokens = *options.special_tokens,
                                .unknown_token = *options.unknown_token,
                                .initial_alphabet = codes_of(*options.initial_alphabet),
                                .shrinking_factor = *options.shrinking_factor,
                                .sub_iterations = *options.sub_iterations,
                                .max_piece_length = *options.max_piece_length,
                                .seed_size = *options.seed_size},
                               progress);
  std::vector<UnigramPiece> pieces;
  pieces.reserve(trained.pieces.size());
  for (auto& piece : trained.pieces) pieces.emplace_back(std::move(piece.text), piece.score);
  UnigramOptions model;
  if (trained.unknown_id) model.unk_id = static_cast<size_t>(*trained.unknown_id);
  return make_unigram(model, pieces);
}

TokenModelPtr word_model(const TrainTokenizerOptions& options, const Words& words) {
  return make_word_level(
      *options.unknown_token,
      entries_of(train_word_level(words, {.vocabulary = *options.vocabulary,
                                          .min_frequency = *options.min_frequency,
                                          .special_tokens = *options.special_tokens})));
}

// The id of a byte is its value plus the number of special tokens.
TokenModelPtr byte_model(const TrainTokenizerOptions& options) {
  auto tokens = *options.special_tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens.emplace_back(spelling_of_byte(static_cast<unsigned char>(byte)));
  return make_bpe({}, entries_of(std::move(tokens)), {});
}

TokenModelPtr trained_model(const TrainTokenizerOptions& options, const TokenizerParts& parts,
                            const NextText& next, const TrainerProgress& progress) {
  if (options.kind == Kind::bytes) return byte_model(options);
  CountingOptions counting;
  if (progress) counting.read = [&](int64_t bytes) { progress("texts", bytes, 0); };
  const auto words = count_words(next, split_by(parts.normalizer, parts.pre_tokenizer), counting);
  if (words.empty())
    throw UserError("the texts hold no words", "a tokenizer is trained on at least one word");
  switch (options.kind) {
    case Kind::unigram:
      return unigram_model(options, words, progress);
    case Kind::words:
    case Kind::characters:
      return word_model(options, words);
    default:
      return merged_model(options, words, progress);
  }
}

}  // namespace

Tokenizer train_tokenizer(const TrainTokenizerOptions& given, const NextText& next,
                          const TrainerProgress& progress) {
  check_kind_options(given);
  const auto options = with_defaults(given);
  TokenizerParts parts;
  parts.normalizer = preset_normalizer(options);
  parts.pre_tokenizer = preset_pre_tokenizer(options);
  parts.post_processor = preset_post_processor(options);
  parts.decoder = preset_decoder(options);
  parts.model = trained_model(options, parts, next, progress);
  for (const auto& token : *options.special_tokens) {
    AddedToken added;
    added.id = static_cast<int32_t>(parts.added_tokens.size());
    added.content = token;
    added.special = true;
    parts.added_tokens.push_back(std::move(added));
  }
  return Tokenizer(std::move(parts));
}

}  // namespace longbow
