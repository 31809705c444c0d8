#include "longbow/text/formats/vocabulary_files.h"

#include <gtest/gtest.h>

#include "longbow/core/file.h"
#include "longbow/text/formats/read_tokenizer.h"
#include "longbow/text/formats/tokenizer_json.h"
#include "tests/text/vectors.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

fs::path real_tokenizers() {
  return fs::path(LONGBOW_SOURCE_DIR) / "../shared/data/tokenizers";
}

void expect_reference(const Tokenizer& tokenizer, const fs::path& folder) {
  const auto text = read_file((folder / "reference_encodings.jsonl").string());
  size_t count = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const auto want = parse_json(text.substr(at, end - at), "reference");
    at = end + 1;
    std::vector<int32_t> ids, right;
    // The reference implementations know no special tokens in a text.
    tokenizer.ids_of(want.find("text")->text, ids, EncodeOptions::SpecialText::plain);
    for (const auto& id : want.find("ids")->items)
      right.push_back(static_cast<int32_t>(as_integer(id, "id")));
    EXPECT_EQ(ids, right) << want.find("text")->text;
    ++count;
  }
  EXPECT_EQ(count, 62u);
}

std::string message(const Gpt2Files& files) {
  try {
    parse_gpt2_files(files);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

constexpr const char* kBert = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n##b\nc";

}  // namespace

TEST(VocabularyFiles, BertsVocabularyIsATokenizer) {
  const auto tokenizer = parse_bert_vocabulary(kBert, "vocab.txt");
  EXPECT_EQ(tokenizer.encode("AB c d").ids, (std::vector<int32_t>{2, 4, 5, 6, 1, 3}));
  const auto pair = tokenizer.encode("a", "c");
  EXPECT_EQ(pair.ids, (std::vector<int32_t>{2, 4, 3, 6, 3}));
  EXPECT_EQ(pair.type_ids, (std::vector<int32_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(tokenizer.decode(pair.ids), "a c");
  const auto cased = parse_bert_vocabulary(kBert, "vocab.txt", {.lowercase = false});
  EXPECT_EQ(cased.encode("AB").ids, (std::vector<int32_t>{2, 1, 3}));
}

TEST(VocabularyFiles, Gpt2sFilesAreATokenizer) {
  Gpt2Files files;
  files.vocabulary = R"({"a":0,"b":1,"\u0120":2,"\u0120a":3,"<|endoftext|>":4})";
  files.vocabulary_name = "vocab.json";
  files.merges = "#version: 0.2\n\u0120 a\n";
  files.merges_name = "merges.txt";
  const auto tokenizer = parse_gpt2_files(files);
  EXPECT_EQ(tokenizer.encode("b a<|endoftext|>").ids, (std::vector<int32_t>{1, 3, 4}));
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{1, 3}), "b a");
  files.merges = "#version: 0.2\na b c\n";
  EXPECT_EQ(message(files), "merges.txt:2: merge 'a b c' is not two tokens with a space between");
  files.merges = "b a\n";
  EXPECT_EQ(message(files), "vocab.json: BPE: 'ba' of the merges is not in the vocabulary");
}

TEST(VocabularyFiles, AByteOrderMarkIsDropped) {
  const std::string mark = "\xef\xbb\xbf";
  EXPECT_EQ(tokenizer_json(parse_bert_vocabulary(mark + kBert, "vocab.txt")),
            tokenizer_json(parse_bert_vocabulary(kBert, "vocab.txt")));
  Gpt2Files files;
  files.vocabulary = R"({"a":0,"b":1,"ab":2})";
  files.merges = "#version: 0.2\na b\n";
  const auto plain = tokenizer_json(parse_gpt2_files(files));
  EXPECT_EQ(tokenizer_json(parse_tokenizer_json(mark + plain, "t.json")), plain);
  files.vocabulary = mark + files.vocabulary;
  files.merges = mark + files.merges;
  EXPECT_EQ(tokenizer_json(parse_gpt2_files(files)), plain);
}

TEST(VocabularyFiles, MistakesNameFileAndLine) {
  try {
    parse_bert_vocabulary("a\n\xff\n", "vocab.txt");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "vocab.txt:2: not UTF-8");
  }
  EXPECT_THROW(parse_bert_vocabulary("", "vocab.txt"), UserError);
}

TEST(VocabularyFiles, RealOnesGiveTheIdsOfTheirAuthors) {
  const auto real = real_tokenizers();
  if (!fs::exists(real)) GTEST_SKIP() << "no " << real;
  expect_reference(read_tokenizer((real / "bert-base-uncased/vocab.txt").string()),
                   real / "bert-base-uncased");
  expect_reference(read_tokenizer((real / "bert-base-uncased").string()),
                   real / "bert-base-uncased");
  expect_reference(read_tokenizer((real / "koelectra").string(), {.lowercase = false}),
                   real / "koelectra");
  expect_reference(read_tokenizer((real / "gpt2").string()), real / "gpt2");
}

}  // namespace longbow
