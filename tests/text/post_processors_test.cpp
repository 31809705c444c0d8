#include "longbow/text/components/post_processors.h"

#include <gtest/gtest.h>

namespace longbow {
namespace {

Encoding text(const std::vector<std::string>& tokens) {
  Encoding out;
  for (uint32_t i = 0; i < tokens.size(); ++i)
    out.add(static_cast<int32_t>(10 + i), tokens[i], {i, i + 1}, static_cast<int32_t>(i));
  return out;
}

Encoding processed(const std::string& json, std::vector<Encoding> parts, bool adds = true) {
  read_post_processor(parse_json(json, "t.json"))->process(parts, adds);
  Encoding out;
  for (auto& part : parts) out.append(std::move(part));
  return out;
}

std::string message(const std::string& json) {
  try {
    read_post_processor(parse_json(json, "t.json"));
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

using Ids = std::vector<int32_t>;
constexpr const char* kBert = R"({"type":"BertProcessing","sep":["S",2],"cls":["C",1]})";

}  // namespace

TEST(TextPostProcessors, BertFramesOneTextOrTwo) {
  EXPECT_EQ(processed(kBert, {text({"a"})}).ids, (Ids{1, 10, 2}));
  const auto pair = processed(kBert, {text({"a"}), text({"b"})});
  EXPECT_EQ(pair.ids, (Ids{1, 10, 2, 10, 2}));
  EXPECT_EQ(pair.type_ids, (Ids{0, 0, 0, 1, 1}));
  EXPECT_EQ(pair.special_tokens_mask, (std::vector<uint8_t>{1, 0, 1, 0, 1}));
  EXPECT_EQ(processed(kBert, {text({"a"})}, false).ids, (Ids{10}));
}

TEST(TextPostProcessors, WhatOverflowsIsFramedToo) {
  auto first = text({"a", "b", "c"});
  first.truncate(2, 0, TextSide::right);
  const auto got = processed(kBert, {first});
  EXPECT_EQ(got.ids, (Ids{1, 10, 11, 2}));
  ASSERT_EQ(got.overflowing.size(), 1u);
  EXPECT_EQ(got.overflowing[0].ids, (Ids{1, 12, 2}));
}

TEST(TextPostProcessors, TemplatesSayWhatStandsWhere) {
  const std::string json =
      R"({"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":3}},)"
      R"({"SpecialToken":{"id":"E","type_id":4}}],"pair":[{"Sequence":{"id":"B","type_id":1}},)"
      R"({"Sequence":{"id":"A","type_id":0}}],"special_tokens":{"E":{"id":"E","ids":[7,8],)"
      R"("tokens":["x","y"]}}})";
  const auto got = processed(json, {text({"a"})});
  EXPECT_EQ(got.ids, (Ids{10, 7, 8}));
  EXPECT_EQ(got.type_ids, (Ids{3, 4, 4}));
  EXPECT_EQ(processed(json, {text({"a"}), text({"b", "c"})}).tokens,
            (std::vector<std::string>{"b", "c", "a"}));
  EXPECT_EQ(to_json(read_post_processor(parse_json(json, "t.json"))->node()), json);
}

TEST(TextPostProcessors, ByteLevelTrimsSpaces) {
  const std::string json = R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true})";
  auto spaced = text({"\u0120a"});
  spaced.offsets[0] = {3, 5};
  EXPECT_EQ(processed(json, {spaced}).offsets[0], (TokenOffsets{4, 5}));
}

TEST(TextPostProcessors, MistakesNameFileAndComponent) {
  EXPECT_EQ(message(R"({"type":"BertProcessing","sep":["S"],"cls":["C",1]})"),
            "t.json:1: post_processor BertProcessing: sep must be [token, id]");
  EXPECT_EQ(message(R"({"type":"BertProcessing","sep":["S",-1],"cls":["C",1]})"),
            "t.json:1: post_processor BertProcessing: an id must be from 0 to 2147483647");
  EXPECT_EQ(
      message(R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"E","type_id":0}}],)"
              R"("pair":[],"special_tokens":{}})"),
      "t.json:1: post_processor TemplateProcessing: 'E' is not among its special_tokens");
}

}  // namespace longbow
