#include "longbow/text/trainers/word_level_trainer.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace longbow {

std::vector<std::string> train_word_level(const std::vector<WordCount>& words,
                                          const WordLevelTrainerOptions& options) {
  std::vector<std::string> tokens;
  std::unordered_set<std::string_view> special;
  for (const auto& token : options.special_tokens)
    if (special.insert(token).second) tokens.push_back(token);
  std::vector<const WordCount*> order;
  for (const auto& word : words)
    if (word.count >= options.min_frequency && !special.contains(word.word)) order.push_back(&word);
  std::sort(order.begin(), order.end(), [](const WordCount* a, const WordCount* b) {
    return a->count != b->count ? a->count > b->count : a->word < b->word;
  });
  for (const auto* word : order) {
    if (static_cast<int64_t>(tokens.size()) >= options.vocabulary) break;
    tokens.push_back(word->word);
  }
  return tokens;
}

}  // namespace longbow
