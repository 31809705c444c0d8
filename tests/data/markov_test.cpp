#include "longbow/data/sets/markov.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "tests/data/folder.h"
#include "tests/data/mutation.h"

namespace longbow {
namespace {

const MarkovConfig kSmall = {.train = 20,
                             .valid = 6,
                             .test = 5,
                             .words = 8,
                             .followers = 4,
                             .branches = 2,
                             .length = 12,
                             .length_min = 4};

TEST(Markov, EveryPairHasItsBranchesAmongTheFollowersOfItsLastWord) {
  const MarkovChain chain(kSmall, 1);
  for (int64_t last = 0; last < 8; ++last) {
    std::set<int64_t> followers;
    for (int64_t before = 0; before < 8; ++before) {
      double sum = 0;
      std::set<int64_t> own;
      for (const auto& branch : chain.branches(before, last)) {
        sum += branch.probability;
        own.insert(branch.word);
        EXPECT_GT(branch.probability, 0);
        EXPECT_EQ(chain.probability(before, last, branch.word), branch.probability);
      }
      EXPECT_NEAR(sum, 1, 1e-12);
      EXPECT_EQ(own.size(), 2);
      followers.insert(own.begin(), own.end());
    }
    EXPECT_LE(followers.size(), 4);
    EXPECT_GT(followers.size(), 2) << "the word before the last matters";
  }
}

TEST(Markov, OneStepLeavesTheStationaryDistributionAsItIs) {
  const MarkovChain chain(kSmall, 1);
  const auto now = chain.stationary();
  std::vector<double> next(64);
  double sum = 0;
  for (int64_t pair = 0; pair < 64; ++pair) {
    sum += now[static_cast<size_t>(pair)];
    for (int64_t word = 0; word < 8; ++word)
      next[static_cast<size_t>(pair % 8 * 8 + word)] +=
          now[static_cast<size_t>(pair)] * chain.probability(pair / 8, pair % 8, word);
  }
  EXPECT_NEAR(sum, 1, 1e-9);
  for (size_t pair = 0; pair < 64; ++pair) EXPECT_NEAR(next[pair], now[pair], 1e-9) << pair;
}

// Counting estimates the entropies with an error of about 1 / sqrt(words).
TEST(Markov, SamplesHaveTheEntropiesOfTheirChain) {
  auto config = kSmall;
  config.train = 4000;
  config.length = config.length_min = 50;
  const auto splits = make_markov(config, 3);
  const auto entropy = markov_entropy(MarkovChain(config, 3));
  std::map<std::vector<int32_t>, double> counts;
  for (int64_t i = 0; i < config.train; ++i) {
    const auto tokens = splits.train->get(i).tokens;
    for (size_t t = 2; t < tokens.size(); ++t)
      for (const auto& gram : {std::vector<int32_t>{tokens[t]},
                               {tokens[t - 1], tokens[t]},
                               {tokens[t - 2], tokens[t - 1], tokens[t]}})
        ++counts[gram];
  }
  const double all = 4000 * 48;
  std::map<size_t, double> joint;  // entropy of grams by their length
  for (const auto& [gram, count] : counts)
    joint[gram.size()] -= count / all * std::log(count / all);
  EXPECT_NEAR(joint.at(2) - joint.at(1), entropy.given_one, 0.01);
  EXPECT_NEAR(joint.at(3) - joint.at(2), entropy.rate, 0.01);
  EXPECT_LT(entropy.rate, std::log(2)) << "two branches";
  EXPECT_LT(entropy.rate, entropy.given_one - 0.2) << "the word before the last matters";
}

TEST(Markov, TheLowestLossIsAMeanOverPredictedWords) {
  const MarkovEntropy entropy = {.given_one = 1, .rate = 0.5};
  EXPECT_DOUBLE_EQ(entropy.loss(2), 1);
  EXPECT_DOUBLE_EQ(entropy.loss(5), (1 + 3 * 0.5) / 4);
}

TEST(Markov, SamplesStartInTheStationaryDistribution) {
  auto config = kSmall;
  config.train = 20000;
  const auto splits = make_markov(config, 1);
  const auto want = MarkovChain(config, 1).stationary();
  std::vector<double> got(64);
  for (int64_t i = 0; i < config.train; ++i) {
    const auto tokens = splits.train->get(i).tokens;
    got[static_cast<size_t>((tokens[0] - 1) * 8 + tokens[1] - 1)] += 1.0 / 20000;
  }
  for (size_t pair = 0; pair < 64; ++pair)
    EXPECT_NEAR(got[pair], want[pair], 4.5 * std::sqrt(want[pair] / 20000) + 1e-9) << pair;
}

TEST(Markov, TargetsAreTheNextTokens) {
  const auto splits = make_markov(kSmall, 1);
  EXPECT_EQ(splits.vocabulary, 9);
  EXPECT_EQ(splits.symbols.size(), 9);
  std::set<int64_t> lengths;
  for (int64_t i = 0; i < splits.train->size(); ++i) {
    const auto sample = splits.train->get(i);
    for (size_t t = 0; t + 1 < sample.tokens.size(); ++t)
      EXPECT_EQ(sample.targets[t], sample.tokens[t + 1]);
    EXPECT_EQ(sample.targets.back(), kIgnore);
    lengths.insert(splits.train->length(i));
  }
  EXPECT_GT(lengths.size(), 3);
  EXPECT_GE(*lengths.begin(), 4);
  EXPECT_LE(*lengths.rbegin(), 12);
}

TEST(Markov, IsAFunctionOfItsSeed) {
  const auto a = make_markov(kSmall, 1), b = make_markov(kSmall, 1), c = make_markov(kSmall, 2);
  EXPECT_EQ(a.checksums, b.checksums);
  EXPECT_NE(a.checksums, c.checksums);
  EXPECT_NE(a.valid->get(0).tokens, a.test->get(0).tokens);
}

TEST(Markov, RefusesImpossibleOptions) {
  const auto error = [](const MarkovConfig& config) {
    return error_of([&] { make_markov(config, 1); });
  };
  EXPECT_EQ(error({.words = 4, .followers = 5}),
            "followers is 5, but there are 4 words; raise words or lower followers");
  EXPECT_EQ(error({.followers = 2, .branches = 3}),
            "branches is 3, but a word has 2 followers; raise followers or lower branches");
  EXPECT_EQ(error({.length = 8, .length_min = 9}),
            "length_min is 9, not between 2 and length, 8; 0 makes all samples equally long");
}

TEST(Markov, ReadsBackAsItWasWritten) {
  Folder folder;
  write_markov(folder.str(), kSmall, 4);
  const auto loaded = load_markov(folder.str()), made = make_markov(kSmall, 4);
  for (const auto* name : {"train", "valid", "test"})
    EXPECT_EQ(loaded.checksums.at(name), made.checksums.at(name));
  EXPECT_EQ(loaded.vocabulary, made.vocabulary);
  EXPECT_EQ(loaded.symbols, made.symbols);
}

TEST(Markov, SaysWhichLineIsMalformed) {
  Folder folder;
  write_markov(folder.str(), kSmall, 4);
  const MarkovChain chain(kSmall, 4);
  const auto error = [&](const std::string& text) {
    folder.write("markov_val.txt", text);
    return error_of([&] { load_markov(folder.str()); }, folder.str());
  };
  int64_t impossible = 0;
  while (chain.probability(0, 1, impossible) > 0) ++impossible;
  const auto id = std::to_string(impossible + 1);
  EXPECT_EQ(error("1 2 " + id + "\n"),
            "markov_val.txt:1: word 3 (id " + id + ") cannot follow; the file was changed or cut");
  EXPECT_EQ(error("1 9\n"),
            "markov_val.txt:1: '9' is not a word; expected ids 1..8 with one blank between them");
  EXPECT_EQ(error("1 2\n\n"),
            "markov_val.txt:2: '' is not a word; expected ids 1..8 with one blank between them");
  EXPECT_EQ(error("1 2 \n"),
            "markov_val.txt:1: '' is not a word; expected ids 1..8 with one blank between them");
  EXPECT_EQ(error("1\n"), "markov_val.txt:1: fewer than two words");
  EXPECT_EQ(error("1 2"), "markov_val.txt:1: no end of line; the file seems cut off here");
  EXPECT_EQ(error(""), "markov_val.txt: no samples; the file seems cut off here");
  EXPECT_EQ(error("1 2\n"),
            "markov_val.txt: 1 samples, but manifest.json says 6; the file was cut or changed; "
            "make it again with `longbow data make`");
}

TEST(Markov, NeedsItsManifest) {
  Folder folder;
  write_markov(folder.str(), kSmall, 4);
  std::filesystem::remove(folder.file("manifest.json"));
  EXPECT_EQ(
      error_of([&] { load_markov(folder.str()); }, folder.str()),
      "manifest.json: no such file; it says what chain markov_{train,val,test}.txt come from");
}

TEST(Markov, IsNeverReadAfterAnAccident) {
  Folder folder;
  write_markov(folder.str(), kSmall, 4);
  const auto whole = folder.read("markov_test.txt");
  for (uint64_t i = 0; i < 500; ++i) {
    const auto text = mutated(whole, Stream(3, "accident").at(i));
    if (text == whole) continue;
    folder.write("markov_test.txt", text);
    const auto message = error_of([&] { load_markov(folder.str()); }, folder.str());
    ASSERT_TRUE(message.starts_with("markov_test.txt:")) << message;
    ASSERT_EQ(message.find_first_of("\r\n"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace longbow
