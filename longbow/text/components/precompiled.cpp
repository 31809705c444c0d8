#include "longbow/text/components/precompiled.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "longbow/core/utf8.h"
#include "longbow/text/components/normalizers.h"
#include "longbow/text/unicode/normal_form.h"
#include "longbow/text/unicode/well_formed.h"

namespace longbow {
namespace {

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

uint32_t little_endian(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | unicode::byte_at(bytes, at + i);
  return value;
}

// A unit of the double array: a label, an offset to the children, whether a value is among them.
bool has_value(uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
uint32_t value_of(uint32_t unit) {
  return unit & 0x7fffffff;
}
uint32_t label_of(uint32_t unit) {
  return unit & 0x800000ff;
}
uint32_t offset_of(uint32_t unit) {
  return unit >> 10 << ((unit & 1u << 9) >> 6);
}

}  // namespace

std::string base64_of(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const auto byte = [&](size_t i) -> uint32_t {
      return at + i < bytes.size() ? unicode::byte_at(bytes, at + i) : 0u;
    };
    const uint32_t group = byte(0) << 16 | byte(1) << 8 | byte(2);
    const size_t digits = std::min<size_t>(3, bytes.size() - at) + 1;
    for (size_t i = 0; i < 4; ++i) out += i < digits ? kBase64[group >> (18 - 6 * i) & 63] : '=';
  }
  return out;
}

std::string bytes_of_base64(std::string_view text) {
  std::array<int, 256> digits;
  digits.fill(-1);
  for (size_t i = 0; i < kBase64.size(); ++i)
    digits[unicode::byte_at(kBase64, i)] = static_cast<int>(i);
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  uint32_t bits = 0;
  int held = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const int digit = digits[unicode::byte_at(text, i)];
    if (digit < 0) throw UserError("not base64");
    bits = bits << 6 | static_cast<uint32_t>(digit);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out += static_cast<char>(bits >> held & 0xff);
  }
  return out;
}

Charsmap::Charsmap(std::string_view blob) {
  if (blob.size() < 4) throw UserError("the table is cut off");
  const size_t trie_bytes = little_endian(blob, 0);
  if (trie_bytes % 4 != 0 || trie_bytes > blob.size() - 4) throw UserError("the table is cut off");
  units_.reserve(trie_bytes / 4);
  for (size_t at = 4; at < 4 + trie_bytes; at += 4) units_.push_back(little_endian(blob, at));
  replacements_ = blob.substr(4 + trie_bytes);
  if (find_invalid_utf8(replacements_) != std::string::npos)
    throw UserError("the replacements of the table are not UTF-8");
}

std::string_view Charsmap::replacement_at(size_t offset) const {
  if (offset >= replacements_.size()) return {};
  // An offset into the middle of a character would make text that is not UTF-8.
  if (!unicode::is_boundary(replacements_, offset)) return {};
  const auto end = replacements_.find('\0', offset);
  return std::string_view(replacements_)
      .substr(offset, end == std::string::npos ? end : end - offset);
}

std::optional<Charsmap::Match> Charsmap::shortest(std::string_view text) const {
  if (units_.empty()) return {};
  uint32_t at = offset_of(units_[0]);
  for (size_t i = 0; i < text.size() && text[i] != '\0'; ++i) {
    at ^= unicode::byte_at(text, i);
    if (at >= units_.size() || label_of(units_[at]) != unicode::byte_at(text, i)) return {};
    const auto unit = units_[at];
    at ^= offset_of(unit);
    if (!has_value(unit)) continue;
    if (at >= units_.size()) return {};
    return Match{i + 1, replacement_at(value_of(units_[at]))};
  }
  return {};
}

namespace {

// Clusters of characters are replaced whole when they are short, else character by character:
// the rule of Hugging Face's library, where SentencePiece takes the longest prefix.
class PrecompiledNormalizer : public Normalizer {
 public:
  explicit PrecompiledNormalizer(ComponentReader& reader) {
    const auto& field = reader.need("precompiled_charsmap");
    const auto text = as_string(field, reader.name_of("precompiled_charsmap"));
    try {
      blob_ = bytes_of_base64(text);
      if (!blob_.empty()) map_ = Charsmap(blob_);
    } catch (const UserError& error) {
      reader.fail(field, std::string("precompiled_charsmap: ") + error.what());
    }
  }

  void apply(AlignedText& text) const override {
    const auto old = text.view();
    std::vector<unicode::ChangedCharacter> changed;
    changed.reserve(old.size());
    bool is_changed = false;
    for (size_t begin = 0; begin < old.size();) {
      const size_t end = cluster_end(old, begin);
      constexpr size_t kShort = 6;
      if (end - begin < kShort && replace(old.substr(begin, end - begin), changed)) {
        is_changed = true;
        begin = end;
      }
      while (begin < end) {
        size_t next = begin;
        const auto code = unicode::next_character(old, next);
        if (replace(old.substr(begin, next - begin), changed))
          is_changed = true;
        else
          changed.push_back({code, 0});
        begin = next;
      }
    }
    if (!is_changed) return;
    TextRewrite rewrite(text);
    for (const auto& next : changed) rewrite.put(next.code, next.change);
    rewrite.drop_to(old.size());
    rewrite.finish();
  }

  Node node() const override {
    return component_node("Precompiled",
                          {{"precompiled_charsmap", Node::string(base64_of(blob_))}});
  }

 private:
  static size_t cluster_end(std::string_view text, size_t at) {
    utf8proc_int32_t state = 0;
    auto before = unicode::next_character(text, at);
    while (at < text.size()) {
      size_t next = at;
      const auto after = unicode::next_character(text, next);
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before),
                                           static_cast<utf8proc_int32_t>(after), &state))
        break;
      before = after;
      at = next;
    }
    return at;
  }

  // New characters stand for old ones as long as there are any, and are added then. What has no
  // counterpart goes with the last character written; at the beginning of a text there is none, and
  // the origins of the library, followed here, lag behind.
  bool replace(std::string_view part, std::vector<unicode::ChangedCharacter>& out) const {
    const auto match = map_.shortest(part);
    if (!match) return false;
    auto left = static_cast<int>(unicode::count_characters(part));
    for (size_t at = 0; at < match->replacement.size(); --left)
      out.push_back({unicode::next_character(match->replacement, at), left > 0 ? 0 : 1});
    if (left > 0 && !out.empty()) out.back().change -= left;
    return true;
  }

  std::string blob_;
  Charsmap map_;
};

}  // namespace

NormalizerPtr read_precompiled(ComponentReader& reader) {
  return std::make_shared<PrecompiledNormalizer>(reader);
}

}  // namespace longbow
