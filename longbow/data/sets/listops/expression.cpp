#include "longbow/data/sets/listops/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "longbow/data/readers/tsv.h"

namespace longbow {
namespace {

using namespace listops;

bool is_operator(uint8_t symbol) {
  return symbol >= kMin && symbol <= kSum;
}

// The arguments of one operator as a histogram: no operator cares about their order.
struct Arguments {
  uint8_t operation = 0;
  std::array<int64_t, 10> counts{};
  int64_t count = 0;

  void add(int digit) {
    ++counts[static_cast<size_t>(digit)];
    ++count;
  }
  int ranked(int64_t rank) const {  // the rank-th smallest, from 0
    int digit = 0;
    for (int64_t seen = counts[0]; seen <= rank; seen += counts[static_cast<size_t>(digit)])
      ++digit;
    return digit;
  }
  int sum_modulo_10() const {
    int64_t sum = 0;
    for (int64_t digit = 0; digit < 10; ++digit) sum += digit * counts[static_cast<size_t>(digit)];
    return static_cast<int>(sum % 10);
  }
  int apply() const {
    switch (operation) {
      case kMin:
        return ranked(0);
      case kMax:
        return ranked(count - 1);
      case kMedian:
        return (ranked((count - 1) / 2) + ranked(count / 2)) / 2;
      default:
        return sum_modulo_10();
    }
  }
};

// The number of arguments of each operator, in reading order.
std::vector<size_t> argument_counts(const std::vector<uint8_t>& symbols) {
  std::vector<size_t> counts, open;
  for (auto symbol : symbols) {
    if (symbol == kClose) {
      open.pop_back();
      continue;
    }
    if (!open.empty()) ++counts[open.back()];
    if (!is_operator(symbol)) continue;
    open.push_back(counts.size());
    counts.push_back(0);
  }
  return counts;
}

class Parser {
 public:
  Parser(std::string_view text, const Place& place) : rest_(text), place_(place) { advance(); }

  Expression parse() {
    do {
      read_value();
    } while (!open_.empty());
    if (!word_.empty()) fail(fmt::format("{} follows a complete expression", excerpt(word_)));
    return std::move(result_);
  }

 private:
  // An operator is the leftmost leaf of its chain, so the parentheses before it count its arguments
  // and its bracket.
  void read_value() {
    int64_t parentheses = 0;
    for (; word_ == "("; advance()) ++parentheses;
    if (word_.empty()) fail("the expression ends too early");
    auto symbol = read_symbol();
    if (symbol == kClose) fail("']' where a value belongs");
    result_.symbols.push_back(symbol);
    if (is_operator(symbol)) {
      if (parentheses < 2)
        fail(fmt::format("{} opened by {} '(', at least 2 needed", listops::symbols()[symbol],
                         parentheses));
      open_.push_back(parentheses - 1);
      return;
    }
    if (parentheses > 0) fail("'(' before a digit");
    close_complete();
  }

  void close_complete() {
    while (!open_.empty()) {
      expect(")");
      if (--open_.back() > 0) return;
      expect("]");
      expect(")");
      result_.symbols.push_back(kClose);
      open_.pop_back();
    }
  }

  uint8_t read_symbol() {
    const auto& names = listops::symbols();
    for (uint8_t id = kMin; id < kVocabulary; ++id)
      if (names[id] == word_) {
        advance();
        return id;
      }
    fail(word_ == ")" ? "')' where a value belongs" : "unknown symbol " + excerpt(word_));
  }

  void expect(std::string_view wanted) {
    if (word_ != wanted)
      fail(fmt::format("unbalanced expression: '{}' expected, {} found", wanted,
                       word_.empty() ? "its end" : excerpt(word_)));
    advance();
  }

  void advance() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
    auto end = std::min(rest_.find(' '), rest_.size());
    word_ = rest_.substr(0, end);
    rest_.remove_prefix(end);
    ++position_;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(place_, fmt::format("{} (word {})", what, position_),
                    "expected a form like ( ( ( [MAX 2 ) 9 ) ] )");
  }

  std::string_view rest_, word_;
  const Place& place_;
  int64_t position_ = 0;
  std::vector<int64_t> open_;  // arguments still to come, by nesting
  Expression result_;
};

}  // namespace

std::vector<std::string> listops::labels() {
  std::vector<std::string> digits;
  for (int64_t digit = 0; digit < kClasses; ++digit) digits.push_back(std::to_string(digit));
  return digits;
}

const std::vector<std::string>& listops::symbols() {
  static const std::vector<std::string> names = {"<pad>", "[MIN", "[MAX", "[MED", "[SM", "]",
                                                 "0",     "1",    "2",    "3",    "4",   "5",
                                                 "6",     "7",    "8",    "9"};
  return names;
}

int Expression::value() const {
  std::vector<Arguments> open(1);
  for (auto symbol : symbols) {
    if (is_operator(symbol)) {
      open.push_back({.operation = symbol});
    } else if (symbol == kClose) {
      auto result = open.back().apply();
      open.pop_back();
      open.back().add(result);
    } else {
      open.back().add(symbol - kZero);
    }
  }
  return open.front().ranked(0);
}

std::optional<int> value_to_depth(std::span<const int32_t> tokens, int64_t depth) {
  std::vector<Arguments> open(1);
  const auto seen = [&] { return std::ssize(open) <= depth + 1; };
  const auto close = [&] {
    const auto ended = open.back();
    const bool counts = seen() && ended.count > 0;
    open.pop_back();
    if (counts) open.back().add(ended.apply());
  };
  for (const auto token : tokens) {
    if (is_operator(static_cast<uint8_t>(token)))
      open.push_back({.operation = static_cast<uint8_t>(token)});
    else if (token == kClose)
      close();
    else if (seen())
      open.back().add(token - kZero);
  }
  while (open.size() > 1) close();
  return open.front().count > 0 ? std::optional(open.front().ranked(0)) : std::nullopt;
}

std::string Expression::text() const {
  const auto counts = argument_counts(symbols);
  std::string text;
  size_t operators = 0, depth = 0;
  for (auto symbol : symbols) {
    if (!text.empty()) text += ' ';
    if (is_operator(symbol)) {
      for (size_t i = 0; i <= counts[operators]; ++i) text += "( ";
      ++operators;
      ++depth;
      text += listops::symbols()[symbol];
      continue;
    }
    text += listops::symbols()[symbol];
    if (symbol == kClose) {
      text += " )";
      --depth;
    }
    if (depth > 0) text += " )";
  }
  return text;
}

Expression parse_expression(std::string_view text, const Place& place) {
  return Parser(text, place).parse();
}

Expression expression_of(std::span<const int32_t> tokens) {
  Expression result;
  std::vector<int64_t> open;  // arguments so far, by nesting
  for (size_t i = 0; i < tokens.size(); ++i) {
    auto fail = [&](const char* what) {
      throw UserError(fmt::format("ListOps token {} (id {}) {}", i + 1, tokens[i], what));
    };
    if (tokens[i] < kMin || tokens[i] >= kVocabulary) fail("is not a symbol");
    if (i > 0 && open.empty()) fail("follows a complete expression");
    auto symbol = static_cast<uint8_t>(tokens[i]);
    result.symbols.push_back(symbol);
    if (symbol == kClose) {
      if (open.empty() || open.back() == 0) fail("closes an operator without arguments");
      open.pop_back();
      continue;
    }
    if (!open.empty()) ++open.back();
    if (is_operator(symbol)) open.push_back(0);
  }
  if (tokens.empty() || !open.empty())
    throw UserError(fmt::format("{} ListOps tokens end inside an expression", tokens.size()));
  return result;
}

}  // namespace longbow
