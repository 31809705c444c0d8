#include "longbow/text/tokenizer/plain_tokenizers.h"

#include <algorithm>
#include <unordered_set>

#include "longbow/core/error.h"
#include "longbow/core/utf8.h"
#include "longbow/text/components/byte_level.h"
#include "longbow/text/components/component.h"
#include "longbow/text/components/decoders.h"
#include "longbow/text/components/pre_tokenizers.h"
#include "longbow/text/models/bpe.h"

namespace longbow {
namespace {

void add_special(TokenizerParts& parts, std::vector<VocabularyEntry>& entries,
                 const std::vector<std::string>& tokens) {
  for (const auto& content : tokens) {
    AddedToken token;
    token.id = static_cast<int32_t>(entries.size());
    token.content = content;
    token.special = true;
    entries.emplace_back(content, token.id);
    parts.added_tokens.push_back(std::move(token));
  }
}

}  // namespace

Tokenizer byte_tokenizer(const std::vector<std::string>& special_tokens) {
  TokenizerParts parts;
  std::vector<VocabularyEntry> entries;
  for (int byte = 0; byte < 256; ++byte)
    entries.emplace_back(spelling_of_byte(static_cast<unsigned char>(byte)), byte);
  add_special(parts, entries, special_tokens);
  parts.model = make_bpe({}, entries, {});
  const auto byte_level = component_node("ByteLevel", {{"add_prefix_space", Node::boolean(false)},
                                                       {"trim_offsets", Node::boolean(false)},
                                                       {"use_regex", Node::boolean(false)}});
  parts.pre_tokenizer = read_pre_tokenizer(byte_level);
  parts.decoder = read_decoder(byte_level);
  return Tokenizer(std::move(parts));
}

Tokenizer character_tokenizer(std::string_view alphabet,
                              const std::vector<std::string>& special_tokens,
                              const std::string& unknown) {
  TokenizerParts parts;
  std::vector<VocabularyEntry> entries;
  add_special(parts, entries, special_tokens);
  std::unordered_set<std::string_view> seen(special_tokens.begin(), special_tokens.end());
  for (size_t at = 0; at < alphabet.size();) {
    const auto next = utf8_at(alphabet, at);
    if (!next.valid) throw UserError("the alphabet of a tokenizer is not UTF-8");
    const auto character = alphabet.substr(at, next.bytes);
    at += next.bytes;
    if (seen.insert(character).second)
      entries.emplace_back(character, static_cast<int32_t>(entries.size()));
  }
  BpeOptions options;
  if (!unknown.empty()) {
    if (std::find(special_tokens.begin(), special_tokens.end(), unknown) == special_tokens.end())
      throw UserError("the unknown token " + quote(unknown) + " is not among the special tokens");
    options.unk_token = unknown;
  }
  parts.model = make_bpe(std::move(options), entries, {});
  parts.decoder = read_decoder(component_node("Fuse"));
  return Tokenizer(std::move(parts));
}

}  // namespace longbow
