#pragma once
// A text as tokens. All lists have one entry per token; overflowing parts have no such parts
// themselves.
#include <cstdint>
#include <string>
#include <vector>

namespace longbow {

// Characters [begin, end) of the text that the token came from, counted in code points, or in bytes
// where that was asked for. A byte that is not well-formed UTF-8 counts as one code point.
// Special tokens have 0, 0.
struct TokenOffsets {
  uint32_t begin = 0;
  uint32_t end = 0;
  friend bool operator==(const TokenOffsets&, const TokenOffsets&) = default;
};

enum class TextSide { left, right };

struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;  // 0 for the first text, 1 for the second, or as a template says
  std::vector<std::string> tokens;
  std::vector<TokenOffsets> offsets;
  std::vector<int32_t> words;                // index of the piece that the token is part of, or -1
  std::vector<uint8_t> special_tokens_mask;  // 1 for tokens that were added, padding too
  std::vector<uint8_t> attention_mask;       // 0 for padding
  std::vector<Encoding> overflowing;         // what truncation cut off, window by window

  size_t size() const { return ids.size(); }
  void reserve(size_t tokens);
  void add(int32_t id, std::string token, TokenOffsets place, int32_t word);
  void add_special(int32_t id, std::string token, int32_t type_id);
  void set_type(int32_t type_id);  // of these tokens; parts that overflow keep theirs

  // Keeps at most `most` tokens from the left, when the right is cut, or from the right. The rest
  // overflows in windows of that size which share `stride` tokens. `stride` is less than `most`.
  void truncate(size_t most, size_t stride, TextSide cut);
  // Behind this one. Parts that overflow are joined in all combinations.
  void append(Encoding other);
  struct Filler {
    int32_t id = 0;
    int32_t type_id = 0;
    std::string token;
    TextSide side = TextSide::right;
  };
  void pad(size_t length, const Filler& filler);  // parts that overflow too

 private:
  Encoding part(size_t begin, size_t end) const;
  void append_tokens(const Encoding& other);
};

}  // namespace longbow
