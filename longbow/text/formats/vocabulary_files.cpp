#include "longbow/text/formats/vocabulary_files.h"

#include <fmt/format.h>

#include <unordered_map>

#include "longbow/core/config.h"
#include "longbow/core/utf8.h"
#include "longbow/text/components/component.h"
#include "longbow/text/components/decoders.h"
#include "longbow/text/components/normalizers.h"
#include "longbow/text/components/post_processors.h"
#include "longbow/text/components/pre_tokenizers.h"
#include "longbow/text/formats/tokenizer_document.h"
#include "longbow/text/models/bpe.h"
#include "longbow/text/models/word_piece.h"

namespace longbow {
namespace {

// Calls take(line without its end, number from 1); nothing for an empty last line. A byte order
// mark is dropped.
template <class Take>
void each_line(std::string_view text, const std::string& name, const Take& take) {
  text = without_byte_order_mark(text);
  int number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    auto line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number;
    if (find_invalid_utf8(line) != std::string_view::npos)
      throw UserError(Place{name, number}, "not UTF-8");
    take(line, number);
    at = end + 1;
  }
}

AddedToken special_token(std::string content, int32_t id) {
  AddedToken token;
  token.id = id;
  token.content = std::move(content);
  token.special = true;
  return token;
}

Node sequence_part(const char* id, int type) {
  return Node::map(
      {{"Sequence", Node::map({{"id", Node::string(id)}, {"type_id", Node::integer(type)}})}});
}
Node special_part(const char* id, int type) {
  return Node::map(
      {{"SpecialToken", Node::map({{"id", Node::string(id)}, {"type_id", Node::integer(type)}})}});
}

PostProcessorPtr bert_frame(int32_t cls, int32_t sep) {
  const auto special = [](const char* name, int32_t id) {
    return Node::map({{"id", Node::string(name)},
                      {"ids", Node::list({Node::integer(id)})},
                      {"tokens", Node::list({Node::string(name)})}});
  };
  auto single =
      Node::list({special_part("[CLS]", 0), sequence_part("A", 0), special_part("[SEP]", 0)});
  auto pair = single;
  pair.items.push_back(sequence_part("B", 1));
  pair.items.push_back(special_part("[SEP]", 1));
  return read_post_processor(component_node(
      "TemplateProcessing", {{"single", std::move(single)},
                             {"pair", std::move(pair)},
                             {"special_tokens", Node::map({{"[CLS]", special("[CLS]", cls)},
                                                           {"[SEP]", special("[SEP]", sep)}})}}));
}

std::vector<BpeMerge> read_merges(const std::string& text, const std::string& name) {
  std::vector<BpeMerge> merges;
  each_line(text, name, [&](std::string_view line, int number) {
    if (line.empty() || (number == 1 && line.starts_with("#version"))) return;
    const auto space = line.find(' ');
    if (space == line.npos || line.find(' ', space + 1) != line.npos)
      throw UserError(Place{name, number}, "merge " + quote(std::string(line)) +
                                               " is not two tokens with a space between");
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  });
  return merges;
}

Node byte_level(bool add_prefix_space, bool trim_offsets) {
  return component_node("ByteLevel", {{"add_prefix_space", Node::boolean(add_prefix_space)},
                                      {"trim_offsets", Node::boolean(trim_offsets)},
                                      {"use_regex", Node::boolean(true)}});
}

}  // namespace

Tokenizer parse_bert_vocabulary(const std::string& text, const std::string& name,
                                const BertVocabularyOptions& options) {
  std::unordered_map<std::string, int32_t> ids;
  each_line(text, name,
            [&](std::string_view line, int number) { ids[std::string(line)] = number - 1; });
  if (ids.empty()) throw UserError(Place{name, 0}, "a vocabulary without tokens");
  TokenizerParts parts;
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
    if (const auto found = ids.find(token); found != ids.end())
      parts.added_tokens.push_back(special_token(token, found->second));
  if (ids.contains("[CLS]") && ids.contains("[SEP]"))
    parts.post_processor = bert_frame(ids["[CLS]"], ids["[SEP]"]);
  parts.normalizer = read_normalizer(
      component_node("BertNormalizer", {{"clean_text", Node::boolean(true)},
                                        {"handle_chinese_chars", Node::boolean(true)},
                                        {"strip_accents", Node()},
                                        {"lowercase", Node::boolean(options.lowercase)}}));
  parts.pre_tokenizer = read_pre_tokenizer(component_node("BertPreTokenizer"));
  parts.decoder = read_decoder(component_node(
      "WordPiece", {{"prefix", Node::string("##")}, {"cleanup", Node::boolean(true)}}));
  try {
    parts.model = make_word_piece({}, {ids.begin(), ids.end()});
  } catch (const UserError& error) {
    throw UserError(Place{name, 0}, error.what());
  }
  return Tokenizer(std::move(parts));
}

Tokenizer parse_gpt2_files(const Gpt2Files& files) {
  // The vocabulary is the object that a tokenizer.json has inside its model.
  const auto document = parse_tokenizer_document(
      fmt::format("{{\"model\":{{\"vocab\":{}}}}}", without_byte_order_mark(files.vocabulary)),
      files.vocabulary_name);
  if (!document.has_entries)
    throw UserError(Place{files.vocabulary_name, 1}, "a vocabulary must be an object of ids");
  const auto merges = read_merges(files.merges, files.merges_name);
  TokenizerParts parts;
  try {
    parts.model = make_bpe({}, document.entries, merges);
  } catch (const UserError& error) {
    throw UserError(Place{files.vocabulary_name, 0}, error.what());
  }
  for (const auto& token : files.special)
    if (const auto id = parts.model->vocabulary().id_of(token); id >= 0)
      parts.added_tokens.push_back(special_token(token, id));
  parts.pre_tokenizer = read_pre_tokenizer(byte_level(files.add_prefix_space, true));
  parts.post_processor = read_post_processor(byte_level(true, false));
  parts.decoder = read_decoder(byte_level(true, true));
  return Tokenizer(std::move(parts));
}

}  // namespace longbow
