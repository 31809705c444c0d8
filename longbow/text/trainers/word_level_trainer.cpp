#include "longbow/text/trainers/word_level_trainer.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_set>

#include "longbow/core/utf8.h"

namespace longbow {

std::vector<std::string> train_word_level(const std::vector<WordCount>& words,
                                          const WordLevelTrainerOptions& options) {
  std::vector<std::string> tokens;
  std::unordered_set<std::string_view> special;
  for (const auto& token : options.special_tokens)
    if (special.insert(token).second) tokens.push_back(token);
  std::vector<const WordCount*> order;
  for (const auto& word : words)
    if (word.count >= options.min_frequency && !special.contains(word.word))
      order.push_back(&word);
  std::sort(order.begin(), order.end(), [](const WordCount* a, const WordCount* b) {
    return a->count != b->count ? a->count > b->count : a->word < b->word;
  });
  for (const auto* word : order) {
    if (static_cast<int64_t>(tokens.size()) >= options.vocabulary) break;
    tokens.push_back(word->word);
  }
  return tokens;
}

std::vector<WordCount> count_characters(const std::vector<WordCount>& words) {
  std::map<char32_t, int64_t> counts;
  for (const auto& [word, count] : words)
    for (size_t at = 0; at < word.size();) {
      const auto character = utf8_at(word, at);
      counts[character.code] += count;
      at += character.bytes;
    }
  std::vector<WordCount> characters;
  for (const auto& [code, count] : counts) {
    append_utf8(characters.emplace_back().word, code);
    characters.back().count = count;
  }
  return characters;
}

}  // namespace longbow
