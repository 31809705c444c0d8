#pragma once
// The ListOps language (Nangia and Bowman, 2018). On disk an expression is a left-associative
// binary tree,
// `( ( ( [MAX 2 ) 9 ) ] )`; the parentheses carry nothing, so here it is its symbols in reading
// order,
// `[MAX 2 9 ]`, and a symbol is its token id.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longbow/core/error.h"

namespace longbow {

namespace listops {
inline constexpr uint8_t kMin = 1, kMax = 2, kMedian = 3, kSum = 4, kClose = 5, kZero = 6;
inline constexpr int64_t kVocabulary =
    16;  // padding, four operators, the closing bracket, ten digits
inline constexpr int64_t kClasses = 10;
const std::vector<std::string>& symbols();  // by token id
std::vector<std::string> labels();          // by class: the digits
}  // namespace listops

struct Expression {
  std::vector<uint8_t> symbols;

  int value() const;  // 0 … 9; the median of an even count is cut to an integer, sums are modulo 10
  std::string text() const;  // the parenthesised form
  std::vector<int32_t> tokens() const { return {symbols.begin(), symbols.end()}; }
  bool operator==(const Expression&) const = default;
};

// Reads the parenthesised form, blanks of any number between symbols; anything else is a UserError
// at `place`.
Expression parse_expression(std::string_view text, const Place& place);

// The value by operators that are nested at most so deep, the root at 1: those below are left out,
// and so is one that has no argument left. None where that leaves nothing. The right end of the
// expression may be cut off.
std::optional<int> value_to_depth(std::span<const int32_t> tokens, int64_t depth);

// The inverse of Expression::tokens(); tokens that are no expression are a UserError.
Expression expression_of(std::span<const int32_t> tokens);

}  // namespace longbow
