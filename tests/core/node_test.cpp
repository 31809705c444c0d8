#include <gtest/gtest.h>

#include "longbow/core/config.h"
#include "tests/core/support.h"

namespace longbow {
namespace {

Node at_line(Node node, int line) {
  node.place = {"f.yaml", line};
  return node;
}
std::string integer_mistake(Node node) {
  return mistake([&] { as_integer(at_line(std::move(node), 3), "model.rank"); });
}
std::string number_mistake(Node node) {
  return mistake([&] { as_number(at_line(std::move(node), 3), "lr"); });
}
std::string boolean_mistake(Node node) {
  return mistake([&] { as_boolean(at_line(std::move(node), 3), "causal"); });
}

}  // namespace

TEST(Node, FindsAndInsertsKeys) {
  Node node;
  node["model"]["rank"] = Node::integer(64);
  EXPECT_EQ(to_json(node), "{\"model\":{\"rank\":64}}");
  EXPECT_EQ(node.find("model")->find("rank")->text, "64");
  EXPECT_EQ(node.find("other"), nullptr);
  EXPECT_EQ(Node::integer(1).find("a"), nullptr);
  EXPECT_EQ(mistake([] { Node::integer(1)["a"]; }), "'a' is wanted in what is not a map");
}

TEST(Node, EqualityIgnoresPlacesAndQuotesThatMeanNothing) {
  EXPECT_EQ(at_line(Node::scalar("a"), 1), at_line(Node::string("a"), 2));
  EXPECT_NE(Node::scalar("12"), Node::string("12"));
  EXPECT_NE(Node::scalar("true"), Node::string("true"));
  EXPECT_NE(Node{}, Node::string(""));
  EXPECT_NE(Node::list(), Node::map());
}

TEST(Node, ABareNullWordIsNull) {
  EXPECT_TRUE(Node::scalar("~").is_null());
  EXPECT_FALSE(Node::string("~").is_null());
}

TEST(Node, IntegersAreWholeDecimals) {
  EXPECT_EQ(as_integer(Node::scalar("64"), "x"), 64);
  EXPECT_EQ(as_integer(Node::scalar("-3"), "x"), -3);
  EXPECT_EQ(as_integer(Node::scalar("+3"), "x"), 3);
  EXPECT_EQ(as_integer(Node::scalar("-9223372036854775808"), "x"), INT64_MIN);
  EXPECT_EQ(integer_mistake(Node::scalar("abc")),
            "f.yaml:3: model.rank is 'abc', not an integer; write a whole number such as 64");
  for (const char* text : {"1_000", "1e3", "1.0", "0x10", "007", "-", "12 a"})
    EXPECT_EQ(integer_mistake(Node::scalar(text)),
              "f.yaml:3: model.rank is '" + std::string(text) +
                  "', not an integer; write a whole number such as 64");
  EXPECT_EQ(integer_mistake(Node::scalar("9223372036854775808")),
            "f.yaml:3: model.rank is '9223372036854775808', which does not fit 64 bits");
}

TEST(Node, MistakesSayWhatStandsThere) {
  EXPECT_EQ(integer_mistake(Node::string("64")),
            "f.yaml:3: model.rank is the string '64', not an integer; write it without quotes");
  EXPECT_EQ(integer_mistake(Node::list()),
            "f.yaml:3: model.rank is a list, not an integer; write a whole number such as 64");
  EXPECT_EQ(integer_mistake(Node::map()),
            "f.yaml:3: model.rank is a map, not an integer; write a whole number such as 64");
  EXPECT_EQ(integer_mistake(Node{}),
            "f.yaml:3: model.rank is empty, not an integer; write a whole number such as 64");
  EXPECT_EQ(mistake([] { as_integer(Node::scalar("x"), ""); }),
            "the value is 'x', not an integer; write a whole number such as 64");
}

TEST(Node, NumbersAreFinite) {
  EXPECT_EQ(as_number(Node::scalar("1e-3"), "x"), 1e-3);
  EXPECT_EQ(as_number(Node::scalar("+.5"), "x"), 0.5);
  EXPECT_EQ(as_number(Node::scalar("64"), "x"), 64);
  for (const char* text : {".inf", ".nan", "inf", "nan", "0x10", "1,5", "abc"})
    EXPECT_EQ(number_mistake(Node::scalar(text)),
              "f.yaml:3: lr is '" + std::string(text) +
                  "', not a number; write a finite number such as 0.5 or 1e-3");
  EXPECT_EQ(number_mistake(Node::scalar("1e999")),
            "f.yaml:3: lr is '1e999', which does not fit a double");
}

TEST(Node, BooleansAreTrueOrFalse) {
  EXPECT_TRUE(as_boolean(Node::scalar("true"), "x"));
  EXPECT_FALSE(as_boolean(Node::scalar("false"), "x"));
  for (const char* text : {"yes", "no", "on", "off", "True", "1"})
    EXPECT_EQ(boolean_mistake(Node::scalar(text)), "f.yaml:3: causal is '" + std::string(text) +
                                                       "', not a boolean; write true or false");
  EXPECT_EQ(boolean_mistake(Node::string("true")),
            "f.yaml:3: causal is the string 'true', not a boolean; write it without quotes");
}

TEST(Node, AnyScalarIsAString) {
  EXPECT_EQ(as_string(Node::scalar("12"), "x"), "12");
  EXPECT_EQ(as_string(Node::string(""), "x"), "");
  EXPECT_EQ(mistake([] { as_string(at_line(Node{}, 3), "path"); }),
            "f.yaml:3: path is empty, not a string; write a text, \"\" for an empty one");
}

}  // namespace longbow
