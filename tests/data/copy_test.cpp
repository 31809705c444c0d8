#include "longbow/data/sets/copy.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/data/folder.h"
#include "tests/data/mutation.h"

namespace longbow {
namespace {

const CopyConfig kSmall{
    .train = 200, .valid = 6, .test = 5, .symbols = 5, .length = 6, .length_min = 3};

TEST(Copy, TheTargetIsTheSourceWithItsEnd) {
  const auto splits = generate(copy_generator(kSmall), 1);
  EXPECT_EQ(splits.vocabulary, 3 + 5);
  EXPECT_EQ(splits.second_vocabulary, 0) << "both sides share their ids";
  EXPECT_EQ(splits.begin, 1);
  EXPECT_EQ(splits.end, 2);
  EXPECT_EQ(splits.symbols,
            (std::vector<std::string>{"<pad>", "<begin>", "<end>", "s0", "s1", "s2", "s3", "s4"}));
  std::set<size_t> lengths;
  std::set<int32_t> used;
  for (int64_t i = 0; i < splits.train->size(); ++i) {
    const auto sample = splits.train->get(i);
    EXPECT_EQ(sample.second, sample.tokens);
    ASSERT_EQ(sample.tokens.back(), 2);
    lengths.insert(sample.tokens.size());
    used.insert(sample.tokens.begin(), sample.tokens.end() - 1);
  }
  EXPECT_EQ(lengths, (std::set<size_t>{3, 4, 5, 6}));
  EXPECT_EQ(used, (std::set<int32_t>{3, 4, 5, 6, 7}));
}

TEST(Copy, IsAFunctionOfItsSeed) {
  const auto generator = copy_generator(kSmall);
  EXPECT_EQ(generate(generator, 1).checksums, generate(generator, 1).checksums);
  EXPECT_NE(generate(generator, 1).checksums, generate(generator, 2).checksums);
}

Splits reread(const Folder& folder) {
  return load_data({.name = "copy", .path = folder.str()});
}

TEST(Copy, ReadsBackAsItWasWritten) {
  const Folder folder;
  make_data("copy", folder.str(), written(kSmall), 4);
  const auto made = generate(copy_generator(kSmall), 4), read = reread(folder);
  for (const auto* name : {"train", "valid", "test"})
    EXPECT_EQ(read.checksums.at(name), made.checksums.at(name));
  EXPECT_NO_THROW(verify(folder.str()));
}

TEST(Copy, SaysWhichLineIsMalformed) {
  const Folder folder;
  make_data("copy", folder.str(), written(kSmall), 4);
  const auto error = [&](const std::string& row) {
    folder.write("copy_val.tsv", "Source\tTarget\n" + row + "\n");
    return error_of([&] { reread(folder); }, folder.str());
  };
  EXPECT_EQ(error("3 4 2 | 3 5 2\t"),
            "copy_val.tsv:2: the target is not the source; the file was changed or cut");
  const std::string malformed =
      "copy_val.tsv:2: the source is not some symbols and an end; symbols have ids from 3 on, the "
      "end has 2";
  EXPECT_EQ(error("3 4 | 3 4\t"), malformed);
  EXPECT_EQ(error("2 | 2\t"), malformed);
  EXPECT_EQ(error("3 1 2 | 3 1 2\t"), malformed);
  EXPECT_EQ(error("3 8 2 | 3 8 2\t"), "copy_val.tsv:2: id 8 is out of range; it may be 1..7");
}

TEST(Copy, RefusesImpossibleLengths) {
  EXPECT_EQ(error_of([] { generate(copy_generator({.length = 3, .length_min = 4}), 1); }),
            "length_min is 4, above length, 3; lower it, or raise length");
  EXPECT_EQ(error_of([] { copy_generator({.length_min = 1}); }),
            "length_min is 1, which leaves no room for a symbol and the end; set it to 0 or at "
            "least 2");
}

TEST(Copy, IsNeverReadAfterAnAccident) {
  const Folder folder;
  make_data("copy", folder.str(), written(kSmall), 4);
  const auto whole = folder.read("copy_test.tsv");
  for (uint64_t i = 0; i < 300; ++i) {
    const auto text = mutated(whole, Stream(3, "accident").at(i));
    if (text == whole) continue;
    folder.write("copy_test.tsv", text);
    const auto message = error_of([&] { reread(folder); }, folder.str());
    ASSERT_TRUE(message.starts_with("copy_test.tsv:")) << message;
    ASSERT_EQ(message.find_first_of("\r\n"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace longbow
