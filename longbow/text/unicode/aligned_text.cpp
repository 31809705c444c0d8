#include "longbow/text/unicode/aligned_text.h"

#include <algorithm>
#include <limits>

#include "longbow/core/error.h"
#include "longbow/core/utf8.h"
#include "longbow/text/unicode/well_formed.h"

namespace longbow {
namespace {

// No rule of Unicode makes a text more than 18 times as long.
constexpr size_t kMostGrowth = 256, kSmallText = size_t{1} << 20;

}  // namespace

void AlignedText::clear() {
  text_.clear();
  origins_.clear();
  is_unchanged_ = true;
  base_ = 0;
  most_bytes_ = 0;
}

void AlignedText::assign(std::string_view part, size_t base, Alignment alignment) {
  clear();
  alignment_ = alignment;
  base_ = static_cast<uint32_t>(base);
  most_bytes_ = kSmallText + kMostGrowth * part.size();
  if (find_invalid_utf8(part) == std::string_view::npos) {
    text_.assign(part);
    return;
  }
  is_unchanged_ = false;
  for (size_t at = 0; at < part.size();) {
    const auto next = utf8_at(part, at);
    append_utf8(text_, next.code);
    if (alignment == Alignment::kept) {
      const auto begin = static_cast<uint32_t>(base + at);
      origins_.resize(text_.size(), {begin, begin + static_cast<uint32_t>(next.bytes)});
    }
    at += next.bytes;
  }
}

ByteSpan AlignedText::character_around(size_t at) const {
  size_t begin = at;
  while (!unicode::is_boundary(text_, begin)) --begin;
  const auto first = static_cast<uint32_t>(base_ + begin);
  return {first, first + static_cast<uint32_t>(unicode::bytes_of(unicode::byte_at(text_, begin)))};
}

ByteSpan AlignedText::origin(size_t begin, size_t end) const {
  if (alignment_ == Alignment::none || begin >= end) return {};
  if (is_unchanged_) return {character_around(begin).begin, character_around(end - 1).end};
  return {origins_[begin].begin, origins_[end - 1].end};
}

void AlignedText::spell_out() {
  if (!is_unchanged_ || alignment_ == Alignment::none) return;
  origins_.reserve(text_.size());
  for (size_t at = 0; at < text_.size(); at = origins_.size())
    origins_.resize(at + unicode::bytes_of(unicode::byte_at(text_, at)), character_around(at));
  is_unchanged_ = false;
}

void AlignedText::append(const AlignedText& other) {
  most_bytes_ += other.most_bytes_;
  if (text_.empty() && other.is_unchanged_) {
    text_ = other.text_;
    base_ = other.base_;
    alignment_ = other.alignment_;
    return;
  }
  if (text_.empty()) alignment_ = other.alignment_;
  spell_out();
  is_unchanged_ = false;
  if (alignment_ == Alignment::kept && other.is_unchanged_) {
    for (size_t at = 0; at < other.text_.size();) {
      const auto bytes = unicode::bytes_of(unicode::byte_at(other.text_, at));
      origins_.insert(origins_.end(), bytes, other.character_around(at));
      at += bytes;
    }
  } else if (alignment_ == Alignment::kept) {
    origins_.insert(origins_.end(), other.origins_.begin(), other.origins_.end());
  }
  text_ += other.text_;
}

TextRewrite::TextRewrite(AlignedText& text)
    : text_(text),
      old_(text.text_),
      out_(text.spare_text_),
      origins_(text.spare_origins_),
      is_aligned_(text.alignment_ == AlignedText::Alignment::kept) {
  out_.clear();
  out_.reserve(old_.size() + old_.size() / 4);
  origins_.clear();
  if (is_aligned_) origins_.reserve(old_.size() + old_.size() / 4);
}

void TextRewrite::check_size() const {
  if (out_.size() > text_.most_bytes_ || out_.size() >= std::numeric_limits<uint32_t>::max())
    throw UserError("the rules of the tokenizer make a text too long");
}

void TextRewrite::finish() {
  keep_to(old_.size());
  text_.text_.swap(out_);
  text_.origins_.swap(origins_);
  text_.is_unchanged_ = false;
}

ByteSpan TextRewrite::origin_at(size_t at) const {
  if (text_.is_unchanged_) return text_.character_around(at);
  return text_.origins_[at];
}

void TextRewrite::add_origin(ByteSpan span, size_t bytes) {
  if (is_aligned_) origins_.resize(origins_.size() + bytes, span);
}

void TextRewrite::keep_to(size_t end) {
  out_.append(old_.substr(at_, end - at_));
  if (is_aligned_ && text_.is_unchanged_) {
    for (; at_ < end; at_ += unicode::bytes_of(unicode::byte_at(old_, at_)))
      add_origin(text_.character_around(at_), unicode::bytes_of(unicode::byte_at(old_, at_)));
  } else if (is_aligned_) {
    const auto begin = text_.origins_.begin();
    origins_.insert(origins_.end(), begin + static_cast<std::ptrdiff_t>(at_),
                    begin + static_cast<std::ptrdiff_t>(end));
  }
  at_ = end;
}

void TextRewrite::drop_to(size_t end) {
  at_ = end;
}

void TextRewrite::drop_character() {
  if (at_ < old_.size()) at_ += unicode::bytes_of(unicode::byte_at(old_, at_));
}

void TextRewrite::prefix(std::string_view characters) {
  if (is_aligned_ && !old_.empty())
    add_origin(origin_at(std::min(at_, old_.size() - 1)), characters.size());
  out_.append(characters);
  check_size();
}

void TextRewrite::replace(std::string_view characters) {
  prefix(characters);
  drop_character();
}

void TextRewrite::insert(std::string_view characters) {
  if (is_aligned_) {
    const ByteSpan start = {text_.base_, text_.base_};
    add_origin(at_ == 0 ? start : origin_at(at_ - 1), characters.size());
  }
  out_.append(characters);
  check_size();
}

void TextRewrite::replace(char32_t code) {
  if (code < 0x80) {
    const char byte = static_cast<char>(code);
    return replace(std::string_view(&byte, 1));
  }
  const size_t before = out_.size();
  append_utf8(out_, code);
  if (is_aligned_ && !old_.empty())
    add_origin(origin_at(std::min(at_, old_.size() - 1)), out_.size() - before);
  drop_character();
}

void TextRewrite::insert(char32_t code) {
  std::string bytes;
  append_utf8(bytes, code);
  insert(bytes);
}

void TextRewrite::put(char32_t code, int change) {
  if (change > 0) return insert(code);
  replace(code);
  for (; change < 0; ++change) drop_character();
}

}  // namespace longbow
