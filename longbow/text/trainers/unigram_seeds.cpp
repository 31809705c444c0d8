#include "longbow/text/trainers/unigram_seeds.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "longbow/core/utf8.h"

namespace longbow {
namespace {

constexpr char32_t kWordEnd = 0;

// Sorts suffixes by their first `depth` characters. A suffix ends with its word, and no longer
// string is asked for, so this is all of the suffix array that matters: three-way radix quicksort
// (Bentley and Sedgewick, 1997), which looks at each character about once.
class SuffixOrder {
 public:
  SuffixOrder(const std::u32string& text, size_t depth) : text_(text), depth_(depth) {}

  void sort(uint32_t* begin, uint32_t* end) const {
    std::vector<Range> open = {{begin, end, 0}};
    while (!open.empty()) {
      const Range range = open.back();
      open.pop_back();
      if (range.end - range.begin <= kFew) {
        std::sort(range.begin, range.end,
                  [&](uint32_t a, uint32_t b) { return less(a, b, range.depth); });
        continue;
      }
      const char32_t pivot = middle(range);
      auto *below = range.begin, *at = range.begin, *above = range.end;
      while (at < above) {
        const char32_t code = text_[*at + range.depth];
        if (code < pivot)
          std::swap(*below++, *at++);
        else if (code > pivot)
          std::swap(*at, *--above);
        else
          ++at;
      }
      open.push_back({range.begin, below, range.depth});
      open.push_back({above, range.end, range.depth});
      if (pivot != kWordEnd && range.depth + 1 < depth_)
        open.push_back({below, above, range.depth + 1});
    }
  }

  // How many characters two neighbours share, the end of a word being one.
  uint32_t shared(uint32_t a, uint32_t b) const {
    uint32_t length = 0;
    while (length < depth_ && text_[a + length] == text_[b + length])
      if (text_[a + length++] == kWordEnd) break;
    return length;
  }

 private:
  struct Range {
    uint32_t *begin, *end;
    size_t depth;
  };
  static constexpr std::ptrdiff_t kFew = 16;

  bool less(uint32_t a, uint32_t b, size_t from) const {
    for (size_t i = from; i < depth_; ++i) {
      const char32_t left = text_[a + i], right = text_[b + i];
      if (left != right) return left < right;
      if (left == kWordEnd) break;
    }
    return false;
  }
  char32_t middle(const Range& range) const {
    const auto code = [&](const uint32_t* at) { return text_[*at + range.depth]; };
    const char32_t a = code(range.begin), b = code(range.begin + (range.end - range.begin) / 2),
                   c = code(range.end - 1);
    return std::max(std::min(a, b), std::min(std::max(a, b), c));
  }

  const std::u32string& text_;
  size_t depth_;
};

// A string that several suffixes begin with: suffixes first … first + count - 1 of the order.
struct Repeat {
  uint64_t score;
  uint32_t first, length;
};

// The branching nodes of the suffix tree, read off the sorted suffixes: a string that is longer
// than what its suffixes share with their neighbours outside.
std::vector<Repeat> repeats(const std::u32string& text, const std::vector<uint32_t>& suffixes,
                            const SuffixOrder& order, int64_t max_length) {
  struct Open {
    uint32_t first, length;
  };
  std::vector<Repeat> found;
  std::vector<Open> open;
  const auto close = [&](const Open& node, uint32_t end) {
    if (node.length < 2 || node.length > max_length) return;
    if (text[suffixes[node.first] + node.length - 1] == kWordEnd) return;
    found.push_back({uint64_t{end - node.first} * node.length, node.first, node.length});
  };
  for (uint32_t i = 1; i <= suffixes.size(); ++i) {
    const uint32_t shared =
        i < suffixes.size() ? order.shared(suffixes[i - 1], suffixes[i]) : uint32_t{0};
    uint32_t first = i - 1;
    while (!open.empty() && open.back().length > shared) {
      close(open.back(), i);
      first = open.back().first;
      open.pop_back();
    }
    if (shared > 0 && (open.empty() || open.back().length < shared))
      open.push_back({first, shared});
  }
  return found;
}

std::string utf8_of(std::u32string_view codes) {
  std::string text;
  for (const char32_t code : codes) append_utf8(text, code);
  return text;
}

}  // namespace

std::vector<ScoredPiece> unigram_seeds(const std::vector<WordCount>& words, int64_t max_length,
                                       int64_t most) {
  std::u32string text;
  std::unordered_map<char32_t, int64_t> counts;
  for (const auto& [word, count] : words) {
    for (size_t at = 0; at < word.size();) {
      const auto character = utf8_at(word, at);
      text.push_back(character.code);
      if (character.code != kWordEnd) counts[character.code] += count;
      at += character.bytes;
    }
    text.push_back(kWordEnd);
  }
  std::vector<std::pair<int64_t, char32_t>> characters;
  for (const auto& [code, count] : counts) characters.emplace_back(count, code);
  std::sort(characters.rbegin(), characters.rend());
  std::vector<ScoredPiece> pieces;
  for (const auto& [count, code] : characters)
    pieces.push_back({utf8_of({&code, 1}), static_cast<double>(count)});

  std::vector<uint32_t> suffixes;
  for (uint32_t i = 0; i < text.size(); ++i)
    if (text[i] != kWordEnd) suffixes.push_back(i);
  const SuffixOrder order(text, static_cast<size_t>(max_length) + 1);
  order.sort(suffixes.data(), suffixes.data() + suffixes.size());
  auto found = repeats(text, suffixes, order, max_length);
  // Equal scores come in descending order of the strings, which is the order of (first, length).
  std::sort(found.begin(), found.end(), [](const Repeat& a, const Repeat& b) {
    return std::tie(a.score, a.first, a.length) > std::tie(b.score, b.first, b.length);
  });
  const auto room = std::max<int64_t>(most - static_cast<int64_t>(pieces.size()), 0);
  if (static_cast<int64_t>(found.size()) > room) found.resize(static_cast<size_t>(room));
  for (const auto& repeat : found)
    pieces.push_back({utf8_of({text.data() + suffixes[repeat.first], repeat.length}),
                      static_cast<double>(repeat.score)});
  return pieces;
}

}  // namespace longbow
