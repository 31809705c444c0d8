#include "longbow/text/formats/tokenizer_json.h"

#include <gtest/gtest.h>

#include <functional>

#include "longbow/core/file.h"
#include "tests/support/parity.h"
#include "tests/text/vectors.h"

namespace longbow {
namespace {

struct Case {
  std::string name;
  std::filesystem::path folder;
  std::string json;
  Tokenizer tokenizer;
  Node want;
  ProbeLines probes;
};

void each_case(const std::function<void(const Case&)>& check) {
  size_t count = 0;
  for (const auto& folder : vector_folders())
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      const auto name = file.path().filename().string();
      const std::string ending = ".tokenizer.json";
      if (!name.ends_with(ending)) continue;
      const auto stem = name.substr(0, name.size() - ending.size());
      const auto encodings = folder / (stem + ".encodings.json");
      if (!std::filesystem::exists(encodings)) continue;
      auto json = read_file(file.path().string());
      if (json.ends_with('\n')) json.pop_back();
      SCOPED_TRACE(stem);
      check({stem, folder, json, parse_tokenizer_json(json, name), json_of(encodings),
             probe_lines(folder)});
      ++count;
    }
  EXPECT_GE(count, 4u);
}

EncodeOptions truncated(const std::string& name) {
  EncodeOptions options;
  Truncation truncation;
  using Strategy = Truncation::Strategy;
  if (name == "t8") truncation = {TextSide::right, 8, Strategy::longest_first, 0};
  if (name == "t9-left") truncation = {TextSide::left, 9, Strategy::longest_first, 0};
  if (name.starts_with("t12-stride2"))
    truncation = {TextSide::right, 12, Strategy::longest_first, 2};
  if (name == "t14-second") truncation = {TextSide::right, 14, Strategy::only_second, 0};
  if (name == "t14-first-stride1") truncation = {TextSide::right, 14, Strategy::only_first, 1};
  options.truncation = truncation;
  if (name == "t12-stride2+padding") {
    options.padding = TokenPadding();
    options.padding->length = 16;
  }
  return options;
}

void expect_truncated(const Case& given, const Node& want) {
  const auto& name = want.find("truncation")->text;
  const auto& pair =
      given.probes.pairs[static_cast<size_t>(as_integer(*want.find("pair"), "pair"))];
  const auto options = truncated(name);
  if (want.find("error")) {
    EXPECT_THROW(given.tokenizer.encode(pair.first, pair.second, options), UserError) << name;
    return;
  }
  const auto got = given.tokenizer.encode(pair.first, pair.second, options);
  expect_encoding(got, want, name);
  const auto* overflowing = want.find("overflowing_ids");
  ASSERT_EQ(static_cast<int64_t>(got.overflowing.size()),
            as_integer(*want.find("overflowing_count"), "count"))
      << name;
  for (size_t i = 0; i < overflowing->items.size(); ++i) {
    std::vector<int32_t> ids;
    for (const auto& id : overflowing->items[i].items)
      ids.push_back(static_cast<int32_t>(as_integer(id, "id")));
    EXPECT_EQ(got.overflowing[i].ids, ids) << name << " " << i;
  }
}

std::string message(const std::string& json) {
  try {
    parse_tokenizer_json(json, "t.json");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

std::string with_model(const std::string& model) {
  return R"({"version":"1.0","model":)" + model + "}";
}

constexpr const char* kWordLevel =
    R"({"type":"WordLevel","vocab":{"a":0,"[UNK]":1},"unk_token":"[UNK]"})";

}  // namespace

TEST(TokenizerJson, LinesAreEncodedAsRecorded) {
  each_case([](const Case& given) {
    const auto& want = given.want.find("lines")->items;
    ASSERT_EQ(want.size(), given.probes.lines.size());
    for (size_t i = 0; i < want.size(); ++i)
      expect_encoding(given.tokenizer.encode(given.probes.lines[i]), want[i],
                      "line " + std::to_string(i));
  });
}

TEST(TokenizerJson, IdsAloneAreTheSame) {
  each_case([](const Case& given) {
    EncodeOptions bare;
    bare.add_special_tokens = false;
    for (const auto& line : given.probes.lines) {
      std::vector<int32_t> ids;
      given.tokenizer.ids_of(line, ids);
      EXPECT_EQ(ids, given.tokenizer.encode(line, bare).ids) << line;
    }
    const auto& want = given.want.find("bare_ids_of_lines_7_to_11")->items;
    for (size_t i = 0; i < want.size(); ++i) {
      std::vector<int32_t> ids, right;
      given.tokenizer.ids_of(given.probes.lines[7 + i], ids);
      for (const auto& id : want[i].items)
        right.push_back(static_cast<int32_t>(as_integer(id, "id")));
      EXPECT_EQ(ids, right);
    }
  });
}

TEST(TokenizerJson, IdsAreDecodedAsRecorded) {
  each_case([](const Case& given) {
    const auto& want = given.want.find("decoded")->items;
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_EQ(given.tokenizer.decode(given.tokenizer.encode(given.probes.lines[i]).ids),
                want[i].text)
          << i;
  });
}

TEST(TokenizerJson, PairsAreEncodedAsRecorded) {
  each_case([](const Case& given) {
    const auto& want = given.want.find("pairs")->items;
    for (size_t i = 0; i < want.size(); ++i) {
      const auto& pair = given.probes.pairs[i];
      expect_encoding(given.tokenizer.encode(pair.first, pair.second), want[i],
                      "pair " + std::to_string(i));
    }
  });
}

TEST(TokenizerJson, PairsAreTruncatedAsRecorded) {
  each_case([](const Case& given) {
    for (const auto& want : given.want.find("truncated_pairs")->items)
      expect_truncated(given, want);
  });
}

TEST(TokenizerJson, WritingGivesTheFileBack) {
  each_case([](const Case& given) { EXPECT_EQ(tokenizer_json(given.tokenizer, -1), given.json); });
}

TEST(TokenizerJson, WhatIsWrittenWithLinesIsReadAgain) {
  each_case([](const Case& given) {
    const auto again = parse_tokenizer_json(tokenizer_json(given.tokenizer), "again");
    EXPECT_EQ(tokenizer_json(again, -1), given.json);
  });
}

TEST(TokenizerJson, ModelsWithoutTypeAreRead) {
  const auto type = [](const std::string& model) {
    const auto json = tokenizer_json(parse_tokenizer_json(with_model(model), "t.json"), -1);
    const auto at = json.find("\"model\":{\"type\":\"") + 17;
    return json.substr(at, json.find('"', at) - at);
  };
  EXPECT_EQ(type(R"({"vocab":{"a":0},"merges":[]})"), "BPE");
  EXPECT_EQ(type(R"({"unk_id":0,"vocab":[["a",-1.5]]})"), "Unigram");
  EXPECT_EQ(type(R"({"unk_token":"a","continuing_subword_prefix":"##","vocab":{"a":0}})"),
            "WordPiece");
  EXPECT_EQ(type(R"({"unk_token":"a","vocab":{"a":0}})"), "WordLevel");
}

TEST(TokenizerJson, MergesMayBeStringsOrPairs) {
  for (const std::string& merges :
       std::vector<std::string>{R"(["a b","ab c"])", R"([["a","b"],["ab","c"]])"}) {
    const auto tokenizer = parse_tokenizer_json(
        with_model(R"({"type":"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"abc":4},"merges":)" +
                   merges + "}"),
        "t.json");
    EXPECT_EQ(tokenizer.encode("abcab").ids, (std::vector<int32_t>{4, 3})) << merges;
  }
}

TEST(TokenizerJson, SettingsAreReadAndWritten) {
  const std::string json =
      R"({"version":"1.0","truncation":{"direction":"Left","max_length":2,"strategy":"OnlyFirst",)"
      R"("stride":1},"padding":{"strategy":{"Fixed":4},"direction":"Right","pad_to_multiple_of":null,)"
      R"("pad_id":1,"pad_type_id":0,"pad_token":"[UNK]"},"added_tokens":[{"id":2,"content":"<x>",)"
      R"("single_word":true,"lstrip":true,"rstrip":false,"normalized":false,"special":true}],)"
      R"("normalizer":null,"pre_tokenizer":{"type":"WhitespaceSplit"},"post_processor":null,)"
      R"("decoder":null,"model":)" +
      std::string(kWordLevel) + "}";
  const auto tokenizer = parse_tokenizer_json(json, "t.json");
  EXPECT_EQ(tokenizer_json(tokenizer, -1), json);
  const auto got = tokenizer.encode("b a <x>");
  EXPECT_EQ(got.ids, (std::vector<int32_t>{0, 2, 1, 1}));
  EXPECT_EQ(got.attention_mask, (std::vector<uint8_t>{1, 1, 0, 0}));
  ASSERT_EQ(got.overflowing.size(), 1u);
  EXPECT_EQ(got.overflowing[0].ids, (std::vector<int32_t>{1, 0, 1, 1}));
}

TEST(TokenizerJson, MistakesNameFileAndLine) {
  EXPECT_EQ(message("{").substr(0, 24), "t.json:1: not valid JSON");
  EXPECT_EQ(message("[]"), "t.json:1: a tokenizer must be an object");
  EXPECT_EQ(message("{\n\"modle\": {}}"), "t.json:2: unknown key 'modle'; did you mean 'model'?");
  EXPECT_EQ(message(R"({"version":"2.0"})"), "t.json:1: version is '2.0'; only 1.0 can be read");
  EXPECT_EQ(message("{}"), "t.json:1: model must be an object");
  EXPECT_EQ(message(with_model(R"({"type":"BPEE","vocab":{"a":0}})")),
            "t.json:1: unknown model 'BPEE'; did you mean 'BPE'?");
  EXPECT_EQ(message(with_model(R"({"type":"BPE","vocab":{"a":0}})")),
            "t.json:1: model BPE: merges is missing");
  EXPECT_EQ(message(with_model(R"({"type":"BPE","vocab":{"a":0},"merges":["a b"]})")),
            "t.json:1: BPE: 'b' of the merges is not in the vocabulary");
  EXPECT_EQ(message(with_model(R"({"type":"BPE","vocab":{"a":0},"merges":["ab"]})")),
            "t.json:1: merge 'ab' is not two tokens with a space between");
  EXPECT_EQ(message(with_model(R"({"type":"BPE","dropout":0.1,"vocab":{"a":0},"merges":[]})")),
            "t.json:1: model BPE: dropout must be null or 0");
  EXPECT_EQ(message(with_model(R"({"type":"WordLevel","vocab":{"a":0,"a":1},"unk_token":"a"})")),
            "t.json:1: token 'a' is there twice");
  EXPECT_EQ(message(with_model(R"({"type":"WordLevel","vocab":{"a":0,"b":0},"unk_token":"a"})")),
            "t.json:1: tokens 'a' and 'b' have the same id 0");
  EXPECT_EQ(message(with_model(R"({"type":"WordLevel","vocab":{"a":2000000000},"unk_token":"a"})")),
            "t.json:1: token 'a' has the id 2000000000; ids of 1 entries must be below 65552");
  EXPECT_EQ(message(with_model(R"({"type":"Unigram","unk_id":3,"vocab":[["a",0.0]]})")),
            "t.json:1: Unigram: unk_id is 3; there are 1 pieces");
  EXPECT_EQ(message(with_model(R"({"type":"Unigram","unk_id":0,"vocab":[["a"]]})")),
            "t.json:1: vocab must be a list of [piece, score]");
  EXPECT_EQ(message(R"({"added_tokens":[{"id":5,"content":"a"}],"model":)" +
                    std::string(kWordLevel) + "}"),
            "t.json:1: added token 'a' has the id 5, and 0 in the vocabulary");
}

TEST(TokenizerJson, HostileDocumentsAreRefused) {
  EXPECT_EQ(message(std::string(200, '[')), "t.json:1: nested deeper than 100 levels");
  EXPECT_EQ(message(with_model(R"({"type":"BPE","vocab":{"a":{}},"merges":[]})")),
            "t.json:1: vocab has an object inside");
  EXPECT_EQ(message(R"({"model":{},"model":{}})"), "t.json:1: duplicate key 'model'");
}

}  // namespace longbow
