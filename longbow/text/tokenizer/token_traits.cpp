#include "longbow/text/tokenizer/token_traits.h"

#include <algorithm>
#include <string_view>

#include "longbow/text/components/byte_level.h"

namespace longbow {
namespace {

// What decoding shows for bytes that are no character: those of a token that is a part of one.
constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";

bool is_broken(std::string_view text) {
  return text.find(kReplacementCharacter) != std::string_view::npos;
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool is_of_a_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) > 127;
}

// What decoding adds for a token after another one.
class Joiner {
 public:
  explicit Joiner(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
    for (int32_t id = 0; id < static_cast<int32_t>(tokenizer.size()); ++id) {
      auto text = tokenizer.decode(std::vector{id});
      if (text.empty() || is_broken(text) || !std::all_of(text.begin(), text.end(), is_of_a_word))
        continue;
      before_ = id;
      text_ = std::move(text);
      return;
    }
  }

  std::string added(int32_t id) const {
    if (before_ < 0) return tokenizer_.decode(std::vector{id});
    auto both = tokenizer_.decode(std::vector{before_, id});
    return both.starts_with(text_) ? both.substr(text_.size()) : "";
  }

 private:
  const Tokenizer& tokenizer_;
  int32_t before_ = -1;  // a token of letters alone
  std::string text_;
};

// The bytes of a text that a token stands for. Beside its neighbours a part of a character is as
// many as it spells, and not those of U+FFFD, by which it is shown alone.
int64_t bytes_of(std::string_view token, std::string_view shown) {
  if (!is_broken(shown) || is_broken(token)) return std::ssize(shown);
  if (shown == kReplacementCharacter && token.starts_with("<0x")) return 1;  // <0xEA>
  return std::ssize(bytes_of_characters(token));
}

}  // namespace

std::vector<TokenTraits> token_traits(const Tokenizer& tokenizer) {
  const auto affixes = tokenizer.parts().model->affixes();
  const Joiner joiner(tokenizer);
  std::vector<TokenTraits> all(tokenizer.size());
  for (int32_t id = 0; id < static_cast<int32_t>(all.size()); ++id) {
    auto& traits = all[static_cast<size_t>(id)];
    const auto* added = tokenizer.added_tokens().find(id);
    const auto token = tokenizer.token_of(id), text = joiner.added(id);
    traits.special = added && added->special;
    traits.bytes = traits.special ? 0 : bytes_of(token, text);
    if (!affixes.continuing_prefix.empty()) {
      traits.begins = !token.starts_with(affixes.continuing_prefix);
    } else if (!affixes.end_suffix.empty()) {
      traits.ends = token.ends_with(affixes.end_suffix);
    } else {
      traits.begins = !text.empty() && is_blank(text.front());
    }
  }
  return all;
}

}  // namespace longbow
