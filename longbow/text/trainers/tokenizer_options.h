#pragma once
// What can be asked of a tokenizer that is trained.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longbow/core/fields.h"

namespace longbow {

enum class TokenizerKind {
  wordpiece,
  bpe,
  byte_bpe,
  sentencepiece_bpe,
  unigram,
  words,
  characters,
  bytes
};
constexpr std::array<std::string_view, 8> names_of(TokenizerKind) {
  return {"wordpiece", "bpe",   "byte_bpe",   "sentencepiece_bpe",
          "unigram",   "words", "characters", "bytes"};
}

enum class TextForm { none, nfc, nfd, nfkc, nfkd };
constexpr std::array<std::string_view, 5> names_of(TextForm) {
  return {"none", "nfc", "nfd", "nfkc", "nfkd"};
}

// An option without a value is as the kind has it by default. One with a value that the kind does
// not have is an OptionError.
struct TrainTokenizerOptions {
  TokenizerKind kind = TokenizerKind::wordpiece;
  std::optional<int64_t> vocabulary, min_frequency, limit_alphabet, max_token_length;
  std::optional<std::vector<std::string>> special_tokens;
  std::optional<std::string> unknown_token, initial_alphabet, continuing_prefix, end_of_word_suffix;
  std::optional<TextForm> normal_form;
  std::optional<bool> lowercase, strip_accents, chinese_characters, add_prefix_space, templates;
  std::optional<double> shrinking_factor;
  std::optional<int64_t> sub_iterations, max_piece_length, seed_size;
};

template <class V>
void fields(V& v, TrainTokenizerOptions& c) {
  v("train", c.kind, "kind of the tokenizer");
  v("vocabulary", c.vocabulary, "tokens in all; default 30000, unigram 8000",
    range(1, 100'000'000));
  v("min_frequency", c.min_frequency,
    "least count of a merged pair, a word or a character; default 2, words and characters 0",
    at_least(0));
  v("limit_alphabet", c.limit_alphabet,
    "most characters in the alphabet, 0: no limit; default 1000, byte_bpe 0", at_least(0));
  v("max_token_length", c.max_token_length, "merged tokens are shorter, in characters",
    at_least(1));
  v("special_tokens", c.special_tokens,
    "tokens with the first ids; default wordpiece [PAD] [UNK] [CLS] [SEP] [MASK], byte_bpe and "
    "bytes none, others <unk>");
  v("unknown_token", c.unknown_token,
    "stands for what has no token, and comes first unless it is a special token; default "
    "wordpiece [UNK], others <unk>");
  v("initial_alphabet", c.initial_alphabet, "characters that are tokens whatever the texts hold");
  v("continuing_prefix", c.continuing_prefix,
    "before every piece of a word but the first; default wordpiece ##");
  v("end_of_word_suffix", c.end_of_word_suffix, "after the last piece of a word; default bpe </w>");
  v("normal_form", c.normal_form,
    "Unicode normal form; default sentencepiece_bpe and unigram nfkc, others none");
  v("lowercase", c.lowercase, "default wordpiece true, others false");
  v("strip_accents", c.strip_accents, "default wordpiece as lowercase, others false");
  v("chinese_characters", c.chinese_characters,
    "each ideograph is a word of its own; default true");
  v("add_prefix_space", c.add_prefix_space, "a space before the first word; default false");
  v("templates", c.templates,
    "[CLS] A [SEP] and [CLS] A [SEP] B [SEP] where these are special tokens; default true");
  v("shrinking_factor", c.shrinking_factor,
    "fraction of the pieces that stay in a round of "
    "unigram; default 0.75",
    range(0.01, 0.99));
  v("sub_iterations", c.sub_iterations, "iterations of EM in a round of unigram; default 2",
    range(1, 100));
  v("max_piece_length", c.max_piece_length, "characters in a piece of unigram; default 16",
    range(1, 1000));
  v("seed_size", c.seed_size, "pieces that unigram starts with; default 1000000",
    range(1, 100'000'000));
}

}  // namespace longbow
