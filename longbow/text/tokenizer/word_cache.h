#pragma once
// The tokens of words that were seen before. Words of a language repeat; a model need not do them
// again. It forgets everything when it is full.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longbow/text/models/model.h"

namespace longbow {

class WordCache {
 public:
  WordCache() : slots_(kSlots) {}

  // An empty span when the word is not there. Valid until the next add.
  std::span<const WordToken> find(std::string_view word) const {
    const auto& slot = slots_[slot_of(word, hash_of(word))];
    return {tokens_.data() + slot.first_token, slot.tokens};
  }

  void add(std::string_view word, std::span<const WordToken> tokens) {
    if (word.size() > kLongestWord || tokens.empty()) return;
    if (words_ >= kSlots / 2) clear();
    const auto hash = hash_of(word);
    auto& slot = slots_[slot_of(word, hash)];
    slot = {hash, static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(tokens_.size()),
            static_cast<uint16_t>(word.size()), static_cast<uint16_t>(tokens.size())};
    text_ += word;
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    ++words_;
  }

 private:
  static constexpr size_t kSlots = size_t{1} << 16;
  static constexpr size_t kLongestWord = 256;
  struct WordSlot {
    uint32_t hash = 0, begin = 0, first_token = 0;
    uint16_t bytes = 0, tokens = 0;  // no tokens: a free slot
  };

  static uint32_t hash_of(std::string_view word) {
    return static_cast<uint32_t>(std::hash<std::string_view>{}(word));
  }
  size_t slot_of(std::string_view word, uint32_t hash) const {
    size_t at = hash & (kSlots - 1);
    while (slots_[at].tokens > 0 &&
           (slots_[at].hash != hash ||
            std::string_view(text_).substr(slots_[at].begin, slots_[at].bytes) != word))
      at = (at + 1) & (kSlots - 1);
    return at;
  }
  void clear() {
    slots_.assign(kSlots, {});
    text_.clear();
    tokens_.clear();
    words_ = 0;
  }

  std::vector<WordSlot> slots_;
  std::string text_;
  std::vector<WordToken> tokens_;
  size_t words_ = 0;
};

}  // namespace longbow
