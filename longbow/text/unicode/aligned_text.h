#pragma once
// A text that is being rewritten and knows which bytes of the original each of its bytes came from,
// so that a token can be found in what the user wrote.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longbow {

// Bytes [begin, end).
struct ByteSpan {
  uint32_t begin = 0;
  uint32_t end = 0;
  friend bool operator==(const ByteSpan&, const ByteSpan&) = default;
};

class AlignedText {
 public:
  enum class Alignment { kept, none };  // none: only the text is wanted, at half the cost

  // Begins with a part of the original, `base` bytes into it. Bytes that are not well-formed UTF-8
  // become U+FFFD, one each; from here on the text is well-formed.
  void assign(std::string_view part, size_t base, Alignment alignment);
  void append(const AlignedText& other);  // of the same original
  void clear();

  std::string_view view() const { return text_; }
  bool empty() const { return text_.empty(); }
  // The bytes of the original from the first to the last of these, which are not none. Characters
  // count whole. Without alignment: an empty span.
  ByteSpan origin(size_t begin, size_t end) const;

 private:
  friend class TextRewrite;
  void spell_out();  // one span per byte in place of "unchanged"
  ByteSpan character_around(size_t at) const;

  std::string text_, spare_text_;
  std::vector<ByteSpan> origins_, spare_origins_;  // of each byte; none while unchanged
  uint32_t base_ = 0;
  size_t most_bytes_ = 0;  // that a version may have: rules of a file may double a text many times
  bool is_unchanged_ = true;
  Alignment alignment_ = Alignment::kept;
};

// One pass over a text that writes its next version. Finish it, or nothing has happened.
class TextRewrite {
 public:
  explicit TextRewrite(AlignedText& text);
  void finish();

  size_t size() const { return out_.size(); }  // of what is written
  void keep_to(size_t end);                    // bytes up to there as they are
  void drop_to(size_t end);
  void drop_character();
  // A character in place of the next one of the old text, whose origin it takes.
  void replace(char32_t code);
  // Another character for what was replaced or dropped last.
  void insert(char32_t code);
  // As ChangedCharacter says: 0 replaces, 1 inserts, -n replaces and drops n more.
  void put(char32_t code, int change);
  // The same with the bytes of one or more characters.
  void replace(std::string_view characters);
  void insert(std::string_view characters);
  // With the origin of the next old character, which stays.
  void prefix(std::string_view characters);

 private:
  ByteSpan origin_at(size_t at) const;
  void add_origin(ByteSpan span, size_t bytes);
  void check_size() const;  // a UserError for a text that has grown out of all proportion

  AlignedText& text_;
  std::string_view old_;
  std::string& out_;
  std::vector<ByteSpan>& origins_;
  bool is_aligned_;
  size_t at_ = 0;
};

}  // namespace longbow
