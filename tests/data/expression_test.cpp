#include "longbow/data/sets/listops/expression.h"

#include <gtest/gtest.h>

#include "tests/data/folder.h"

namespace longbow {
namespace {

Expression parse(const std::string& text) {
  return parse_expression(text, {"f.tsv", 3});
}

struct Known {
  std::string text;
  int value;
};
const std::vector<Known> kKnown = {
    {"7", 7},
    {"( ( [MAX 2 ) ] )", 2},
    {"( ( ( [MAX 2 ) 9 ) ] )", 9},
    {"( ( ( ( [MIN 4 ) 3 ) 8 ) ] )", 3},
    {"( ( ( ( [MED 1 ) 9 ) 4 ) ] )", 4},
    {"( ( ( [MED 1 ) 2 ) ] )", 1},
    {"( ( ( ( ( [MED 0 ) 9 ) 3 ) 8 ) ] )", 5},
    {"( ( ( ( [SM 9 ) 8 ) 7 ) ] )", 4},
    {"( ( ( [SM ( ( ( [MAX 2 ) 9 ) ] ) ) ( ( ( [MIN 5 ) 3 ) ] ) ) ] )", 2},
};

TEST(Expression, HasTheValueOfTheDefinition) {
  for (const auto& known : kKnown) EXPECT_EQ(parse(known.text).value(), known.value) << known.text;
}

TEST(Expression, ToADepthItLeavesOutWhatIsDeeper) {
  const auto to = [](const std::string& text, int64_t depth) {
    return value_to_depth(parse(text).tokens(), depth);
  };
  const auto* nested = "( ( ( [MAX 2 ) ( ( ( [SM 3 ) ( ( ( [MIN 8 ) 7 ) ] ) ) ] ) ) ] )";
  EXPECT_EQ(to(nested, 1), 2);
  EXPECT_EQ(to(nested, 2), 3);
  EXPECT_EQ(to(nested, 3), 2) << "3 + 7 is 0 modulo 10";
  EXPECT_EQ(to("( ( ( [SM ( ( ( [MAX 2 ) 9 ) ] ) ) ( ( ( [MIN 5 ) 3 ) ] ) ) ] )", 1), std::nullopt);
  for (const auto& known : kKnown) EXPECT_EQ(to(known.text, 10), known.value) << known.text;
  auto cut = parse(nested).tokens();
  cut.resize(4);  // [MAX 2 [SM 3
  EXPECT_EQ(value_to_depth(cut, 9), 3);
}

TEST(Expression, IsWrittenAsItWasRead) {
  for (const auto& known : kKnown) EXPECT_EQ(parse(known.text).text(), known.text);
}

TEST(Expression, MayHaveMoreBlanksThanNeeded) {
  EXPECT_EQ(parse("  ( ( ( [MAX 2  ) 9 )   ] ) "), parse("( ( ( [MAX 2 ) 9 ) ] )"));
}

TEST(Expression, IsItsTokensWithoutParentheses) {
  auto expression = parse("( ( ( [MAX 2 ) ( ( ( [SM 0 ) 9 ) ] ) ) ] )");
  EXPECT_EQ(expression.tokens(), (std::vector<int32_t>{2, 8, 4, 6, 15, 5, 5}));
  for (const auto& known : kKnown) {
    auto tokens = parse(known.text).tokens();
    EXPECT_EQ(expression_of(tokens).text(), known.text);
  }
}

TEST(Expression, NamesItsSymbolsById) {
  std::string names;
  for (const auto& name : listops::symbols()) names += name + " ";
  EXPECT_EQ(names, "<pad> [MIN [MAX [MED [SM ] 0 1 2 3 4 5 6 7 8 9 ");
  EXPECT_EQ(std::ssize(listops::symbols()), listops::kVocabulary);
}

TEST(Expression, NestsAsDeepAsMemoryAllows) {
  constexpr int kDepth = 200000;
  std::string text;
  for (int i = 0; i < kDepth; ++i) text += "( ( [MAX ";
  text += "6";
  for (int i = 0; i < kDepth; ++i) text += " ) ] )";
  auto expression = parse(text);
  EXPECT_EQ(expression.value(), 6);
  EXPECT_EQ(expression.text(), text);
}

TEST(Expression, SaysWhatIsWrongWithItsText) {
  const std::string hint = "; expected a form like ( ( ( [MAX 2 ) 9 ) ] )";
  struct Case {
    std::string text, what;
  };
  const std::vector<Case> cases = {
      {"", "the expression ends too early (word 1)"},
      {"( (", "the expression ends too early (word 3)"},
      {"( ( ( [MAX 2 ) 9 ) ]", "unbalanced expression: ')' expected, its end found (word 10)"},
      {"( ( ( [MAX 2 ) 9 ) ] ) )", "')' follows a complete expression (word 11)"},
      {"( ( [MAX 2 ) 9 ) ] )", "unbalanced expression: ']' expected, '9' found (word 6)"},
      {"( [MAX ] )", "[MAX opened by 1 '(', at least 2 needed (word 3)"},
      {"( 3 )", "'(' before a digit (word 3)"},
      {"]", "']' where a value belongs (word 2)"},
      {"( ( [MAX ) ] )", "')' where a value belongs (word 4)"},
      {"( ( [FIRST 2 ) ] )", "unknown symbol '[FIRST' (word 3)"},
      {"( ( [MAX 12 ) ] )", "unknown symbol '12' (word 4)"},
      {"1 2", "'2' follows a complete expression (word 2)"},
      {"\x01", "unknown symbol '\\x01' (word 1)"},
  };
  for (const auto& wrong : cases)
    EXPECT_EQ(error_of([&] { parse(wrong.text); }), "f.tsv:3: " + wrong.what + hint) << wrong.text;
}

TEST(Expression, RefusesTokensThatAreNone) {
  auto error = [](std::vector<int32_t> tokens) { return error_of([&] { expression_of(tokens); }); };
  EXPECT_EQ(error({2, 8, 0, 5}), "ListOps token 3 (id 0) is not a symbol");
  EXPECT_EQ(error({2, 16, 5}), "ListOps token 2 (id 16) is not a symbol");
  EXPECT_EQ(error({8, 8}), "ListOps token 2 (id 8) follows a complete expression");
  EXPECT_EQ(error({2, 5}), "ListOps token 2 (id 5) closes an operator without arguments");
  EXPECT_EQ(error({2, 8}), "2 ListOps tokens end inside an expression");
  EXPECT_EQ(error({}), "0 ListOps tokens end inside an expression");
}

}  // namespace
}  // namespace longbow
