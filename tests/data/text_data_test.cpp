#include "longbow/data/encoding/text_data.h"

#include <algorithm>
#include <thread>

#include "tests/data/text_folder.h"

namespace longbow {
namespace {

using TextData = TextFolder;

TEST_F(TextData, TheTokenizerIsTrainedOnTheTrainingSplitOnly) {
  file("t.csv", rows(10));
  file("v.csv", "text,label\nrow 0 is zebra,r\n");
  const auto splits = load(
      "{name: table, tokenizer: {train: words}, table: {train: t.csv, valid: v.csv, test: v.csv}}");
  EXPECT_EQ(splits.codec->find({"zebra"}), 0);
  EXPECT_GT(splits.codec->find({"blue"}), 0);
}

TEST_F(TextData, WhatWasEncodedIsReadFromTheCache) {
  file("t.csv", rows(50));
  const auto first = load(kTable);
  EXPECT_EQ(caches(), 1);
  const auto again = load(kTable);
  EXPECT_EQ(caches(), 1);
  EXPECT_EQ(first.checksums, again.checksums);
  EXPECT_EQ(first.train->get(3).tokens, again.train->get(3).tokens);
  EXPECT_EQ(first.symbols, again.symbols);
  file("t.csv", rows(51));
  (void)load(kTable);
  EXPECT_EQ(caches(), 2) << "other contents of the same file";
  (void)load("{name: table, tokenizer: {train: characters}, table: {train: t.csv}}");
  EXPECT_EQ(caches(), 3) << "another tokenizer";
}

// Only the beginning of a long text is looked at; a character may be cut in two.
TEST_F(TextData, BytesAreCutAnywhere) {
  file("t.tsv", "text\tlabel\nabc\ta\nabcd\ta\nab\xc3\xa4z\tb\nab\xf0\x9f\x99\x82" +
                    std::string(9000, 'x') + "\tb\n");
  const auto cut = [&](const std::string& most) {
    return load("{name: table, max_tokens: " + most +
                ", tokenizer: {train: bytes}, "
                "table: {train: t.tsv, valid: t.tsv, test: t.tsv}}");
  };
  const auto splits = cut("3");
  const std::vector<std::vector<int32_t>> wanted = {{'a' + 1, 'b' + 1, 'c' + 1},
                                                    {'a' + 1, 'b' + 1, 'c' + 1},
                                                    {'a' + 1, 'b' + 1, 0xc3 + 1},
                                                    {'a' + 1, 'b' + 1, 0xf0 + 1}};
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_EQ(splits.train->get(static_cast<int64_t>(i)).tokens, wanted[i]) << i;
  EXPECT_EQ(splits.truncated, 3 * 3);
  EXPECT_EQ(cut("0").max_length, 9006);
}

TEST_F(TextData, AFailureLeavesNoCache) {
  file("t.csv", "text,label\nfine,a\nbroken\n");
  EXPECT_NE(message(kTable), "no error");
  EXPECT_EQ(caches(), 0);
}

TEST_F(TextData, WritersAtTheSameTimeMakeOneCache) {
  file("t.csv", rows(200));
  std::vector<std::string> sums(4);
  std::vector<std::thread> threads;
  for (auto& sum : sums)
    threads.emplace_back([&, &sum = sum] { sum = load(kTable).checksums.at("train"); });
  for (auto& thread : threads) thread.join();
  for (const auto& sum : sums) EXPECT_EQ(sum, sums[0]);
  EXPECT_EQ(caches(), 1);
}

// A record may be a book: few of them are held in memory.
TEST_F(TextData, LongTextsAreWrittenBeforeAllOfThemAreRead) {
  constexpr int64_t kRecords = 40, kTokens = 4096;
  const auto record = [](size_t bytes) {
    corpus::Record made;
    made.texts = {std::string(bytes, 'x')};
    made.label = "a";
    made.file = std::make_shared<const std::string>("t");
    return made;
  };
  const auto written_records = [&] {
    for (const auto& draft : std::filesystem::directory_iterator(in("cache")))
      if (const auto tokens = draft.path() / "train/tokens"; std::filesystem::exists(tokens))
        return static_cast<int64_t>(std::filesystem::file_size(tokens)) / (4 * kTokens);
    return kRecords;  // the tokenizer is being trained
  };
  int64_t most = 0;  // that were read and not yet written
  TextCorpus texts = {.classes = {"a"}};
  texts.train = [&](const corpus::RecordSink& sink) {
    for (int64_t i = 0; i < kRecords; ++i) {
      most = std::max(most, i - written_records());
      sink(record(size_t{1} << 20));
    }
  };
  texts.valid = texts.test = [&](const corpus::RecordSink& sink) { sink(record(8)); };
  const auto splits = encode_corpus(
      config("{name: table, max_tokens: 4096, tokenizer: {train: bytes}}"), Node::map(), texts);
  EXPECT_EQ(splits.train->size(), kRecords);
  EXPECT_LE(most, 17) << "16 MiB of text wait, and one record may be in the buffer of its file";
}

TEST_F(TextData, AnotherTokenizerInTheSamePlaceIsAnotherCache) {
  file("t.csv", rows(20));
  const auto config = "{name: table, tokenizer: {file: " + in("model") +
                      "}, table: {train: t.csv, valid: t.csv, test: t.csv}}";
  make_folder(in("model"));
  file("model/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nrow\nred\n");
  EXPECT_EQ(load(config).vocabulary, 6);
  file("model/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nrow\nred\nblue\n");
  EXPECT_EQ(load(config).vocabulary, 7);
  EXPECT_EQ(caches(), 2);
}

TEST_F(TextData, ATextWithoutTokensIsOneUnknownToken) {
  file("t.csv", "text,label\n\u200b,a\nfine,b\n");
  const auto splits = load(
      "{name: table, tokenizer: {train: wordpiece, min_frequency: 1, special_tokens: ['[PAD]', "
      "'[CLS]', '[SEP]', '[MASK]', '[UNK]']}, table: {train: t.csv, valid: t.csv, test: t.csv}}");
  const auto tokens = splits.train->get(0).tokens;
  ASSERT_EQ(tokens.size(), 1u);
  EXPECT_EQ(splits.symbols[static_cast<size_t>(tokens[0])], "[UNK]");
}

}  // namespace
}  // namespace longbow
