#include "longbow/text/tokenizer/added_tokens.h"

#include <algorithm>

#include "longbow/core/error.h"
#include "longbow/text/unicode/characters.h"
#include "longbow/text/unicode/well_formed.h"

namespace longbow {
namespace {

bool ends_with_word(std::string_view text) {
  size_t end = text.size();
  return end > 0 && unicode::is_word(unicode::previous_character(text, end));
}

bool begins_with_word(std::string_view text) {
  size_t at = 0;
  return !text.empty() && unicode::is_word(unicode::next_character(text, at));
}

std::string normalized_content(const AddedToken& token, const Normalizer* normalizer) {
  AlignedText text;
  text.assign(token.content, 0, AlignedText::Alignment::none);
  if (normalizer) normalizer->apply(text);
  return std::string(text.view());
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer)
    : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const auto& token = tokens_[i];
    if (token.id < 0 || token.content.empty())
      throw UserError("an added token needs a text and an id");
    if (!by_id_.emplace(token.id, i).second || !by_content_.emplace(token.content, i).second)
      throw UserError("added token " + quote(token.content) + " or its id is there twice");
    decoded_.push_back(token.normalized ? normalized_content(token, normalizer) : token.content);
  }
  for (size_t stage = 0; stage < 2; ++stage) {
    auto& set = sets_[stage];
    std::vector<std::pair<std::string_view, int32_t>> patterns;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i].normalized != (stage == 1) || decoded_[i].empty()) continue;
      patterns.emplace_back(decoded_[i], tokens_[i].id);
      set.first_bytes[unicode::byte_at(decoded_[i], 0)] = true;
    }
    set.is_empty = patterns.empty();
    set.trie = TokenTrie(std::move(patterns));
  }
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(content);
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

bool AddedTokens::is_special(std::string_view content) const {
  const auto* token = find(content);
  return token && token->special;
}

const std::string& AddedTokens::decoded_text(const AddedToken& token) const {
  return decoded_[by_id_.at(token.id)];
}

AddedTokens::Found AddedTokens::with_spaces(std::string_view text, Found found, size_t from) const {
  const auto& token = *find(found.id);
  if (token.single_word &&
      (ends_with_word(text.substr(0, found.begin)) || begins_with_word(text.substr(found.end))))
    return {};
  for (size_t at = found.begin; token.lstrip && at > from; found.begin = at)
    if (!unicode::is_white_space(unicode::previous_character(text, at))) break;
  for (size_t at = found.end; token.rstrip && at < text.size(); found.end = at)
    if (!unicode::is_white_space(unicode::next_character(text, at))) break;
  return found;
}

AddedTokens::Found AddedTokens::next_match(std::string_view text, size_t at, size_t from,
                                           Search search) const {
  const auto& set = sets_[static_cast<size_t>(search.stage)];
  if (set.is_empty) return {};
  while (at < text.size()) {
    if (!set.first_bytes[unicode::byte_at(text, at)]) {
      ++at;
      continue;
    }
    Found found;
    set.trie.each_prefix(text.substr(at), [&](size_t bytes, int32_t id) {
      found = {at, at + bytes, id};
    });
    if (found.id < 0) {
      ++at;
      continue;
    }
    const bool is_plain = !search.with_special && find(found.id)->special;
    const auto whole = is_plain ? Found{} : with_spaces(text, found, from);
    if (whole.id >= 0) return whole;
    at = found.end;  // no token begins inside one that is not taken
  }
  return {};
}

}  // namespace longbow
