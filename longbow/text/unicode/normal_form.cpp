// utf8proc decomposes and composes; order, blocking and the count of changes are here, because
// utf8proc does not tell which characters its result came from.
#include "longbow/text/unicode/normal_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "longbow/text/unicode/characters.h"
#include "longbow/text/unicode/well_formed.h"

namespace longbow::unicode {
namespace {

bool composes(NormalForm form) {
  return form == NormalForm::c || form == NormalForm::kc;
}
bool is_compatible(NormalForm form) {
  return form == NormalForm::kc || form == NormalForm::kd;
}

void decompose(char32_t code, NormalForm form, std::vector<ChangedCharacter>& out) {
  constexpr size_t kLongest = 18;  // U+FDFA
  std::array<utf8proc_int32_t, kLongest> parts;
  int last_class = 0;
  int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
  if (is_compatible(form)) options |= UTF8PROC_COMPAT;
  const auto count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts.data(), parts.size(),
                              static_cast<utf8proc_option_t>(options), &last_class);
  if (count < 1 || count > static_cast<utf8proc_ssize_t>(kLongest)) return out.push_back({code, 0});
  for (utf8proc_ssize_t i = 0; i < count; ++i)
    out.push_back({static_cast<char32_t>(parts[static_cast<size_t>(i)]), i > 0});
}

// Marks between two starters, by class; equal ones keep their order.
void order_marks(std::vector<ChangedCharacter>& text, size_t begin) {
  const auto by_class = [](const ChangedCharacter& a, const ChangedCharacter& b) {
    return combining_class(a.code) < combining_class(b.code);
  };
  for (size_t at = begin; at < text.size(); ++at) {
    if (combining_class(text[at].code) == 0) continue;
    size_t end = at;
    while (end < text.size() && combining_class(text[end].code) != 0) ++end;
    std::stable_sort(text.begin() + static_cast<std::ptrdiff_t>(at),
                     text.begin() + static_cast<std::ptrdiff_t>(end), by_class);
    at = end;
  }
}

// 0 when the two do not compose.
char32_t composed(char32_t first, char32_t second) {
  std::array<utf8proc_int32_t, 2> pair = {static_cast<utf8proc_int32_t>(first),
                                          static_cast<utf8proc_int32_t>(second)};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  return utf8proc_normalize_utf32(pair.data(), 2, options) == 1 ? static_cast<char32_t>(pair[0])
                                                                : 0;
}

// In place, from `begin` on: a character joins the last starter unless a mark of its class or
// higher, or another starter, stands between.
void compose(std::vector<ChangedCharacter>& text, size_t begin) {
  constexpr size_t kNone = static_cast<size_t>(-1);
  size_t starter = kNone, end = begin;
  int last_class = 0;
  for (size_t at = begin; at < text.size(); ++at) {
    const auto next = text[at];
    const int next_class = combining_class(next.code);
    const bool is_blocked = starter == kNone || (end > starter + 1 && last_class >= next_class);
    const auto joined = is_blocked ? 0 : composed(text[starter].code, next.code);
    if (joined) {
      text[starter] = {joined, text[starter].change + next.change - 1};
      continue;
    }
    if (next_class == 0) starter = end;
    last_class = next_class;
    text[end++] = next;
  }
  text.resize(end);
}

}  // namespace

bool is_inert(char32_t code, NormalForm form) {
  if (code < 0x80 || (code >= 0x4e00 && code <= 0x9fff)) return true;
  if (composes(form) && code >= 0xac00 && code <= 0xd7a3) return true;
  return form == NormalForm::c && code < 0x300;
}

void normalize(std::string_view text, NormalForm form, std::vector<ChangedCharacter>& out) {
  size_t begin = out.size();  // of what is not finished: the last inert character and all after it
  bool is_finished = true;
  const auto finish = [&] {
    if (is_finished) return;
    order_marks(out, begin);
    if (composes(form)) compose(out, begin);
    is_finished = true;
  };
  for (size_t at = 0; at < text.size();) {
    const auto code = next_character(text, at);
    if (is_inert(code, form)) {
      finish();
      begin = out.size();
      out.push_back({code, 0});
      continue;
    }
    if (is_finished && out.size() > begin) {
      // The inert character may be composed itself: a mark can go below the one that it has.
      const auto inert = out.back().code;
      out.pop_back();
      decompose(inert, form, out);
    }
    is_finished = false;
    decompose(code, form, out);
  }
  finish();
}

}  // namespace longbow::unicode
