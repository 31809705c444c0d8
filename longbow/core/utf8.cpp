#include "longbow/core/utf8.h"

#include <fmt/format.h>

#include <cstdint>

namespace longbow {
namespace {

bool needs_escape(char32_t code) {
  return code < 0x20 || (code >= 0x7f && code <= 0xa0) || code == 0x2028 || code == 0x2029 ||
         code == 0xfeff || code == 0xfffe || code == 0xffff;
}

std::string escape(char32_t code) {
  switch (code) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return needs_escape(code) ? fmt::format("\\u{:04x}", static_cast<uint32_t>(code)) : "";
  }
}

}  // namespace

Utf8Character utf8_at(std::string_view text, size_t offset) {
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  char32_t first = byte(offset);
  if (first < 0x80) return {first, 1, true};
  size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return {};
  char32_t code = first & (0xffu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(offset + i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(offset + i) & 0x3f);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < kLeast[bytes] || code > 0x10ffff || surrogate) return {};
  return {code, bytes, true};
}

size_t find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    auto character = utf8_at(text, at);
    if (!character.valid) return at;
    at += character.bytes;
  }
  return std::string_view::npos;
}

void append_utf8(std::string& text, char32_t code) {
  auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

std::string string_literal(std::string_view text) {
  std::string literal = "\"";
  for (size_t at = 0; at < text.size();) {
    auto [code, bytes, valid] = utf8_at(text, at);
    auto escaped = escape(code);
    if (!valid)
      literal += "\xef\xbf\xbd";
    else
      literal += escaped.empty() ? text.substr(at, bytes) : std::string_view(escaped);
    at += bytes;
  }
  return literal + "\"";
}

std::string one_line(std::string_view text, size_t most) {
  std::string line;
  for (size_t at = 0; at < text.size();) {
    if (line.size() >= most) return line + "…";
    auto [code, bytes, valid] = utf8_at(text, at);
    if (code == '\n') {
      line += "\\n";
    } else if (!valid || (bytes == 1 && needs_escape(code))) {
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
    } else if (needs_escape(code)) {
      line += fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
    } else {
      line += text.substr(at, bytes);
    }
    at += bytes;
  }
  return line;
}

}  // namespace longbow
