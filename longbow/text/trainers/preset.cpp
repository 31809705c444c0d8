#include "longbow/text/trainers/preset.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "longbow/core/option_error.h"
#include "longbow/text/components/byte_level.h"
#include "longbow/text/components/component.h"
#include "longbow/text/components/decoders.h"
#include "longbow/text/components/normalizers.h"
#include "longbow/text/components/post_processors.h"
#include "longbow/text/components/pre_tokenizers.h"

namespace longbow {
namespace {

using Kind = TokenizerKind;

// Options that only some kinds have.
struct Owners {
  const char* option;
  std::vector<Kind> kinds;
};
const std::vector<Owners>& owners() {
  static const std::vector<Kind> merging = {Kind::wordpiece, Kind::bpe, Kind::byte_bpe,
                                            Kind::sentencepiece_bpe};
  static const std::vector<Kind> unigram = {Kind::unigram};
  static const std::vector<Owners> all = {
      {"vocabulary",
       {Kind::wordpiece, Kind::bpe, Kind::byte_bpe, Kind::sentencepiece_bpe, Kind::unigram,
        Kind::words, Kind::characters}},
      {"min_frequency",
       {Kind::wordpiece, Kind::bpe, Kind::byte_bpe, Kind::sentencepiece_bpe, Kind::words,
        Kind::characters}},
      {"limit_alphabet", merging},
      {"max_token_length", merging},
      {"unknown_token",
       {Kind::wordpiece, Kind::bpe, Kind::sentencepiece_bpe, Kind::unigram, Kind::words,
        Kind::characters}},
      {"initial_alphabet", {Kind::wordpiece, Kind::bpe, Kind::sentencepiece_bpe, Kind::unigram}},
      {"continuing_prefix", {Kind::wordpiece}},
      {"end_of_word_suffix", {Kind::bpe}},
      {"chinese_characters", {Kind::wordpiece, Kind::bpe}},
      {"add_prefix_space", {Kind::byte_bpe}},
      {"shrinking_factor", unigram},
      {"sub_iterations", unigram},
      {"max_piece_length", unigram},
      {"seed_size", unigram},
  };
  return all;
}

template <class T>
void set_default(std::optional<T>& option, T value) {
  if (!option) option = std::move(value);
}

bool is_bert(Kind kind) {
  return kind == Kind::wordpiece || kind == Kind::bpe;
}
bool is_metaspace(Kind kind) {
  return kind == Kind::sentencepiece_bpe || kind == Kind::unigram;
}

bool is_token_of_byte(const std::string& token) {
  for (int byte = 0; byte < 256; ++byte)
    if (spelling_of_byte(static_cast<unsigned char>(byte)) == token) return true;
  return false;
}

Node flag(bool value) {
  return Node::boolean(value);
}

Node metaspace() {
  return component_node("Metaspace", {{"replacement", Node::string("▁")},
                                      {"prepend_scheme", Node::string("always")},
                                      {"split", flag(true)}});
}

Node byte_level(bool add_prefix_space, bool trim_offsets, bool use_regex) {
  return component_node("ByteLevel", {{"add_prefix_space", flag(add_prefix_space)},
                                      {"trim_offsets", flag(trim_offsets)},
                                      {"use_regex", flag(use_regex)}});
}

Node bert_normalizer(const TrainTokenizerOptions& options) {
  return component_node(
      "BertNormalizer",
      {{"clean_text", flag(true)},
       {"handle_chinese_chars", flag(*options.chinese_characters)},
       {"strip_accents", options.strip_accents ? flag(*options.strip_accents) : Node{}},
       {"lowercase", flag(*options.lowercase)}});
}

Node regex(const std::string& pattern) {
  return Node::map({{"Regex", Node::string(pattern)}});
}

Node template_item(const char* what, const std::string& id, int64_t type) {
  return Node::map(
      {{what, Node::map({{"id", Node::string(id)}, {"type_id", Node::integer(type)}})}});
}

Node template_token(const std::string& token, int64_t id) {
  return Node::map({{"id", Node::string(token)},
                    {"ids", Node::list({Node::integer(id)})},
                    {"tokens", Node::list({Node::string(token)})}});
}

// [CLS] A [SEP], and for a pair B [SEP] behind it with type 1; null without these tokens.
Node bert_template(const TrainTokenizerOptions& options) {
  const std::string first = "[CLS]", last = "[SEP]";
  const auto& special = *options.special_tokens;
  const auto id_of = [&](const std::string& token) {
    return std::find(special.begin(), special.end(), token) - special.begin();
  };
  const auto absent = static_cast<std::ptrdiff_t>(special.size());
  if (!*options.templates || id_of(first) == absent || id_of(last) == absent) return {};
  Node single =
      Node::list({template_item("SpecialToken", first, 0), template_item("Sequence", "A", 0),
                  template_item("SpecialToken", last, 0)});
  Node pair = single;
  pair.items.push_back(template_item("Sequence", "B", 1));
  pair.items.push_back(template_item("SpecialToken", last, 1));
  return component_node(
      "TemplateProcessing",
      {{"single", single},
       {"pair", pair},
       {"special_tokens", Node::map({{first, template_token(first, id_of(first))},
                                     {last, template_token(last, id_of(last))}})}});
}

}  // namespace

void check_kind_options(const TrainTokenizerOptions& options) {
  const auto given = written(options);
  for (const auto& [option, kinds] : owners()) {
    const bool has = std::find(kinds.begin(), kinds.end(), options.kind) != kinds.end();
    std::string names;
    for (const auto kind : kinds) names += (names.empty() ? "" : ", ") + name_of(kind);
    require_option(has || given.find(option)->is_null(), option,
                   "is not an option of " + name_of(options.kind), "kinds that have it: " + names);
  }
  if (options.special_tokens)
    for (const auto& token : *options.special_tokens) {
      require_option(!token.empty(), "special_tokens", "has an empty token", "remove it");
      require_option(options.kind != Kind::bytes || !is_token_of_byte(token), "special_tokens",
                     "has " + quote(token) + ", which is the token of a byte",
                     "give one of several characters");
    }
  require_option(!options.unknown_token || !options.unknown_token->empty(), "unknown_token",
                 "is empty", "leave it out to have the default");
}

TrainTokenizerOptions with_defaults(TrainTokenizerOptions options) {
  const Kind kind = options.kind;
  const bool is_bytes = kind == Kind::byte_bpe || kind == Kind::bytes;
  const bool is_count = kind == Kind::words || kind == Kind::characters;
  set_default(options.vocabulary, int64_t{kind == Kind::unigram ? 8000 : 30000});
  set_default(options.min_frequency, int64_t{is_count ? 0 : 2});
  set_default(options.limit_alphabet, int64_t{is_bytes ? 0 : 1000});
  if (!is_bytes)
    set_default(options.unknown_token, std::string(kind == Kind::wordpiece ? "[UNK]" : "<unk>"));
  if (!options.special_tokens) {
    options.special_tokens.emplace();
    if (kind == Kind::wordpiece)
      options.special_tokens = {{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}};
  }
  auto& special = *options.special_tokens;
  if (options.unknown_token &&
      std::find(special.begin(), special.end(), *options.unknown_token) == special.end())
    special.insert(special.begin(), *options.unknown_token);
  std::vector<std::string> distinct;
  for (const auto& token : special)
    if (std::find(distinct.begin(), distinct.end(), token) == distinct.end())
      distinct.push_back(token);
  special = std::move(distinct);
  set_default(options.initial_alphabet, std::string());
  set_default(options.continuing_prefix, std::string(kind == Kind::wordpiece ? "##" : ""));
  set_default(options.end_of_word_suffix, std::string(kind == Kind::bpe ? "</w>" : ""));
  set_default(options.normal_form, is_metaspace(kind) ? TextForm::nfkc : TextForm::none);
  set_default(options.lowercase, kind == Kind::wordpiece);
  if (!is_bert(kind)) set_default(options.strip_accents, false);
  set_default(options.chinese_characters, true);
  set_default(options.add_prefix_space, false);
  set_default(options.templates, true);
  set_default(options.shrinking_factor, 0.75);
  set_default(options.sub_iterations, int64_t{2});
  set_default(options.max_piece_length, int64_t{16});
  set_default(options.seed_size, int64_t{1'000'000});
  return options;
}

NormalizerPtr preset_normalizer(const TrainTokenizerOptions& options) {
  constexpr const char* kForms[] = {nullptr, "NFC", "NFD", "NFKC", "NFKD"};
  std::vector<Node> steps;
  if (options.kind == Kind::unigram) steps.push_back(component_node("Nmt"));
  if (const char* form = kForms[static_cast<size_t>(*options.normal_form)])
    steps.push_back(component_node(form));
  if (is_bert(options.kind)) {
    steps.push_back(bert_normalizer(options));
  } else {
    if (*options.strip_accents) {  // marks must be characters of their own to be removed
      steps.push_back(component_node("NFD"));
      steps.push_back(component_node("StripAccents"));
    }
    if (*options.lowercase) steps.push_back(component_node("Lowercase"));
  }
  if (options.kind == Kind::unigram)
    steps.push_back(
        component_node("Replace", {{"pattern", regex(" {2,}")}, {"content", Node::string(" ")}}));
  if (steps.empty()) return nullptr;
  if (steps.size() == 1) return read_normalizer(steps.front());
  return read_normalizer(component_node("Sequence", {{"normalizers", Node::list(steps)}}));
}

PreTokenizerPtr preset_pre_tokenizer(const TrainTokenizerOptions& options) {
  switch (options.kind) {
    case Kind::wordpiece:
    case Kind::bpe:
      return read_pre_tokenizer(component_node("BertPreTokenizer"));
    case Kind::byte_bpe:
      return read_pre_tokenizer(byte_level(*options.add_prefix_space, true, true));
    case Kind::sentencepiece_bpe:
    case Kind::unigram:
      return read_pre_tokenizer(metaspace());
    case Kind::words:
      return read_pre_tokenizer(component_node("Whitespace"));
    case Kind::characters:
      return read_pre_tokenizer(component_node("Split", {{"pattern", regex("[\\s\\S]")},
                                                         {"behavior", Node::string("Isolated")},
                                                         {"invert", flag(false)}}));
    case Kind::bytes:
      break;
  }
  return read_pre_tokenizer(byte_level(false, true, false));
}

TokenDecoderPtr preset_decoder(const TrainTokenizerOptions& options) {
  switch (options.kind) {
    case Kind::wordpiece:
      return read_decoder(component_node(
          "WordPiece",
          {{"prefix", Node::string(*options.continuing_prefix)}, {"cleanup", flag(true)}}));
    case Kind::bpe:
      return read_decoder(
          component_node("BPEDecoder", {{"suffix", Node::string(*options.end_of_word_suffix)}}));
    case Kind::sentencepiece_bpe:
    case Kind::unigram:
      return read_decoder(metaspace());
    case Kind::words:
      return nullptr;
    case Kind::characters:
      return read_decoder(component_node("Fuse"));
    case Kind::byte_bpe:
    case Kind::bytes:
      break;
  }
  return read_decoder(byte_level(true, true, true));
}

PostProcessorPtr preset_post_processor(const TrainTokenizerOptions& options) {
  const auto around = bert_template(options);
  if (options.kind != Kind::byte_bpe) return read_post_processor(around);
  const auto bytes = byte_level(true, false, true);
  if (around.is_null()) return read_post_processor(bytes);
  return read_post_processor(
      component_node("Sequence", {{"processors", Node::list({bytes, around})}}));
}

}  // namespace longbow
