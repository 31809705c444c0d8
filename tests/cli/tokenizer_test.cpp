#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/corpus/support.h"

namespace longbow::cli {
namespace {

const char* const kTexts = "the cat sat on the mat\nthe dog sat on the log\n\na cat and a dog\r\n";

// A folder with a.txt and the tokenizer trained on it.
Workspace trained(const Arguments& options) {
  Workspace here;
  here.write("a.txt", kTexts);
  Arguments arguments = {"tokenizer", "train", "a.txt", "--out", "tokenizer.json"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const auto outcome = here.run(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "tokenizer.json\n");
  return here;
}

TEST(TokenizerCommand, TrainsEncodesAndDecodes) {
  const auto here = trained({"--kind", "wordpiece", "--vocabulary", "60"});
  here.write("b.txt", "the cat\na dog\n");
  const auto tokens =
      here.run({"tokenizer", "encode", "--tokenizer", "tokenizer.json", "--file", "b.txt"});
  EXPECT_EQ(tokens.out, "[CLS] the cat [SEP]\n[CLS] a dog [SEP]\n") << tokens.err;
  const auto json = here.run(
      {"tokenizer", "encode", "--tokenizer", "tokenizer.json", "--file", "b.txt", "--json"});
  const auto first = nlohmann::json::parse(lines_of(json.out).at(0));
  EXPECT_EQ(first.at("tokens"), (nlohmann::json{"[CLS]", "the", "cat", "[SEP]"}));
  EXPECT_EQ(first.at("offsets"), nlohmann::json::parse("[[0,0],[0,3],[4,7],[0,0]]"));
  EXPECT_EQ(first.at("type_ids"), (nlohmann::json{0, 0, 0, 0}));
  std::string ids;
  for (const auto& id : first.at("ids")) ids += id.dump() + " ";
  here.write("ids.txt", ids + "\n");
  const Arguments decode = {"tokenizer",      "decode", "--tokenizer",
                            "tokenizer.json", "--file", "ids.txt"};
  EXPECT_EQ(here.run(decode).out, "the cat\n");
  auto special = decode;
  special.emplace_back("--special");
  EXPECT_EQ(here.run(special).out, "[CLS] the cat [SEP]\n");
}

TEST(TokenizerCommand, EncodesPairs) {
  const auto here = trained({"--kind", "wordpiece", "--vocabulary", "60"});
  here.write("pairs.txt", "the cat\ta dog\n");
  Arguments encode = {"tokenizer", "encode",    "--tokenizer", "tokenizer.json",
                      "--file",    "pairs.txt", "--pair"};
  EXPECT_EQ(here.run(encode).out, "[CLS] the cat [SEP] a dog [SEP]\n");
  encode.emplace_back("--plain");
  EXPECT_EQ(here.run(encode).out, "the cat a dog\n");
  here.write("pairs.txt", "the cat\ta dog\nalone\n");
  const auto refused = here.run(encode);
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err,
            "longbow: pairs.txt:2: is not two texts with one TAB between them; leave --pair out\n");
}

TEST(TokenizerCommand, ShowsWhatATokenizerIs) {
  const auto here = trained({"--kind", "byte_bpe", "--vocabulary", "260", "--special-tokens",
                             "<s>,</s>", "--lowercase", "true", "--normal-form", "nfc"});
  const auto shown = here.run({"tokenizer", "info", "--tokenizer", "tokenizer.json", "--json"});
  const auto facts = nlohmann::json::parse(shown.out);
  EXPECT_EQ(facts.at("model"), "BPE");
  EXPECT_EQ(facts.at("size"), 260);
  EXPECT_EQ(facts.at("normalizer"), "NFC, Lowercase");
  EXPECT_EQ(facts.at("pre_tokenizer"), "ByteLevel");
  EXPECT_EQ(facts.at("special_tokens"),
            nlohmann::json::parse(R"([{"token":"<s>","id":0},{"token":"</s>","id":1}])"));
  const auto text = here.run({"tokenizer", "info", "--tokenizer", "tokenizer.json"});
  EXPECT_NE(text.out.find("model: BPE\nsize: 260\n"), std::string::npos) << text.out;
}

TEST(TokenizerCommand, TheSameTextsGiveTheSameFile) {
  const auto here = trained({"--kind", "unigram", "--vocabulary", "40"});
  const auto again = trained({"--kind", "unigram", "--vocabulary", "40"});
  EXPECT_EQ(here.read("tokenizer.json"), again.read("tokenizer.json"));
}

TEST(TokenizerCommand, ReadsTextsPlainAndPackedWithAndWithoutAByteOrderMark) {
  const Arguments options = {"--kind", "characters"};
  const auto here = trained(options);
  const auto expected = here.read("tokenizer.json");
  const auto encoded = [&](const std::string& file) {
    return here.run({"tokenizer", "encode", "--tokenizer", "tokenizer.json", "--file", file}).out;
  };
  const auto tokens = encoded("a.txt");
  EXPECT_TRUE(tokens.starts_with("t h e ")) << tokens;
  const std::string marked = std::string("\xef\xbb\xbf") + kTexts;
  here.write("marked.txt", marked);
  here.write("packed", corpus::gzipped(kTexts));
  here.write("both.txt", corpus::xzipped(marked));
  for (const auto* file : {"marked.txt", "packed", "both.txt", "-"}) {
    Arguments train = {"tokenizer", "train", file, "--out", "t.json", "--force"};
    train.insert(train.end(), options.begin(), options.end());
    const int input = open(here.path("packed").c_str(), O_RDONLY);
    ASSERT_GE(input, 0);
    const auto outcome = Running(here.folder(), train, ".stdout", input).finish();
    close(input);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(here.read("t.json"), expected) << file;
    if (file != std::string("-")) EXPECT_EQ(encoded(file), tokens) << file;
  }
}

TEST(TokenizerCommand, BytesThatAreNoTextAreRefused) {
  const auto here = trained({"--kind", "byte_bpe", "--vocabulary", "264"});
  here.write("latin.txt", "1\n2\xff\n");
  here.write("u16.txt", std::string("\xff\xfe"
                                    "a\0",
                                    4));
  const std::string latin =
      "longbow: latin.txt:2: column 2: byte 0xff is not UTF-8; convert the file with iconv\n";
  const auto refused = [&](const Arguments& arguments) {
    const auto outcome = here.run(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_FALSE(here.has("t.json"));
    return outcome.err;
  };
  EXPECT_EQ(refused({"tokenizer", "train", "latin.txt", "--out", "t.json"}), latin);
  EXPECT_EQ(refused({"tokenizer", "train", "u16.txt", "--out", "t.json"}),
            "longbow: u16.txt: is UTF-16; convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > "
            "NEW\n");
  for (const auto* action : {"encode", "decode"})
    EXPECT_EQ(
        refused({"tokenizer", action, "--tokenizer", "tokenizer.json", "--file", "latin.txt"}),
        latin);
}

TEST(TokenizerCommand, WhatCannotBeEncodedIsNamedWithItsLine) {
  const Workspace here;
  here.write("t.json", R"({"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"?"}})");
  here.write("a.txt", "a\nb\n");
  here.write("pairs.txt", "a\tb\n");
  const std::string mistake = ": WordLevel: the unknown token '?' is not in the vocabulary\n";
  const auto one = here.run({"tokenizer", "encode", "--tokenizer", "t.json", "--file", "a.txt"});
  EXPECT_EQ(one.code, 2);
  EXPECT_EQ(one.out, "a\n");
  EXPECT_EQ(one.err, "longbow: a.txt:2" + mistake);
  EXPECT_EQ(
      here.run({"tokenizer", "encode", "--tokenizer", "t.json", "--file", "pairs.txt", "--pair"})
          .err,
      "longbow: pairs.txt:1" + mistake);
}

struct Refused {
  Arguments options;
  const char* message;
};

TEST(TokenizerCommand, AMistakeIsOneLine) {
  const Workspace here;
  here.write("a.txt", kTexts);
  here.write("empty.txt", "\n \n");
  here.write("latin.txt", "caf\xe9\n");
  here.write("there.json", "");
  const Refused all[] = {
      {{"a.txt", "--out", "t.json", "--kind", "wordpeice"},
       "--kind: tokenizer.train is 'wordpeice'; did you mean 'wordpiece'?"},
      {{"a.txt", "--out", "t.json", "--kind", "bpe", "--seed-size", "9"},
       "--seed-size: tokenizer.seed_size is not an option of bpe; kinds that have it: unigram"},
      {{"a.txt", "--out", "t.json", "--vocabulary", "0"},
       "--vocabulary: tokenizer.vocabulary is 0, out of range; it may be 1..100000000"},
      {{"a.txt", "--out", "t.json", "--kind", "unigram", "--vocabulary", "5"},
       "a vocabulary of 5 cannot hold the 13 characters of the texts; ask for a larger "
       "vocabulary"},
      {{"empty.txt", "--out", "t.json"},
       "the texts hold no words; a tokenizer is trained on at least one word"},
      {{"--out", "t.json"}, "no file to train on; give files with one text per line; - is stdin"},
      {{"nowhere.txt", "--out", "t.json"},
       "nowhere.txt: cannot be read; No such file or directory"},
      {{".", "--out", "t.json"}, ".: is a folder; give files with one text per line"},
      {{"a.txt", "--out", "there.json"},
       "there.json: exists already; give another file with --out, or --force to replace it"},
      {{"nowhere.txt", "--out", "nodir/t.json"},
       "nodir/t.json: cannot be written; there is no folder 'nodir'"},
      {{"nowhere.txt", "--out", ".", "--force"}, ".: cannot be written; it is not a regular file"},
      {{"latin.txt", "nowhere.txt", "--out", "t.json"},
       "nowhere.txt: cannot be read; No such file or directory"},
      {{"--kind", "bytes", "--special-tokens", "<s>,a", "--out", "t.json"},
       "--special-tokens: tokenizer.special_tokens has 'a', which is the token of a byte; give "
       "one of several characters"},
  };
  for (const auto& [options, message] : all) {
    Arguments arguments = {"tokenizer", "train"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const auto outcome = here.run(arguments);
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_EQ(outcome.err, "longbow: " + std::string(message) + "\n");
    EXPECT_FALSE(here.has("t.json"));
  }
}

TEST(TokenizerCommand, AWordThatIsNoIdIsRefused) {
  const auto here = trained({"--kind", "bytes", "--force"});
  for (const auto* word : {"x", "256", "-1", "1.5", "99999999999"}) {
    here.write("ids.txt", std::string("65\n65 ") + word + "\n");
    const auto outcome =
        here.run({"tokenizer", "decode", "--tokenizer", "tokenizer.json", "--file", "ids.txt"});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "A\n");
    EXPECT_EQ(outcome.err, "longbow: ids.txt:2: '" + std::string(word) +
                               "' is not an id of the tokenizer; ids are 0 to 255, with blanks "
                               "between them\n");
  }
}

}  // namespace
}  // namespace longbow::cli
