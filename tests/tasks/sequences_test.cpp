#include "longbow/tasks/sequences.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"
#include "tests/tasks/samples.h"

namespace longbow {
namespace {

const std::vector<Sample> kPairs = {
    {.tokens = {1, 2, 3}, .targets = {0}, .second = {4, 5}},
    {.tokens = {6}, .targets = {1}, .second = {7, 8, 9, 1}},
};
const std::vector<Sample> kSingles = {{.tokens = {1, 2, 3}, .targets = {0}},
                                      {.tokens = {6}, .targets = {1}}};

SequencesConfig small(Arrangement pairs) {
  SequencesConfig config;
  config.pairs = pairs;
  config.encoder.width = 8;
  config.encoder.layers = 1;
  config.encoder.max_length = 6;
  config.encoder.init = Init::xavier;
  return config;
}

Batch whole(const Splits& splits, int64_t padded) {
  return collate(*splits.train, {.indices = {0, 1}, .padded_length = padded});
}

TEST(Sequences, TwoTowersReadEachSequenceByItself) {
  const auto config = small(Arrangement::towers);
  const auto splits = arranged(splits_of(kPairs, 3), config);
  const Sequences sequences(splits, config, 3, 1);
  EXPECT_EQ(splits.vocabulary, 10);
  EXPECT_EQ(splits.max_length, 4);
  const auto batch = whole(splits, 4);
  Context context, other;
  const auto got = sequences(batch, context);
  auto& model = dynamic_cast<PairClassifier&>(*sequences.model());
  EXPECT_NEAR_TENSOR(
      got, model({batch.tokens, batch.lengths}, {batch.second, batch.second_lengths}, other),
      kExact);
}

TEST(Sequences, AJointPairIsOneSequence) {
  const auto config = small(Arrangement::joint);
  const auto splits = arranged(splits_of(kPairs, 3), config);
  const Sequences sequences(splits, config, 3, 1);
  EXPECT_EQ(splits.vocabulary, 11);
  EXPECT_EQ(splits.max_length, 6);
  const auto batch = whole(splits, 6);
  Context context, other;
  const auto got = sequences(batch, context);
  auto& model = dynamic_cast<Classifier&>(*sequences.model());
  const auto alone = model(at::tensor({1, 2, 3, 10, 4, 5}, at::kLong).unsqueeze(0), other);
  EXPECT_NEAR_TENSOR(got.narrow(0, 0, 1), alone, (Tolerance{1e-6, 1e-5}));
}

TEST(Sequences, SingleSequencesNeedNoPairs) {
  for (const auto arrangement : {Arrangement::towers, Arrangement::joint}) {
    const auto splits = arranged(splits_of(kSingles, 3), small(arrangement));
    const Sequences sequences(splits, small(arrangement), 5, 1);
    EXPECT_EQ(splits.vocabulary, 10);
    Context context;
    EXPECT_EQ(sequences(whole(splits, 3), context).sizes(), (at::IntArrayRef{2, 5}));
  }
}

TEST(Sequences, SayWhatCannotBeBuilt) {
  const auto mistake = [](const std::string& model) {
    const auto tree = parse_yaml(model, "run.yaml");
    return error_of([&] { check_sequences(read<SequencesConfig>(tree, "model"), tree); });
  };
  EXPECT_EQ(mistake("width: 8\npooling: none"),
            "run.yaml:2: model.pooling none gives a row for every token; a sample has one; write "
            "mean, first, max, attention, pma or class_token");
  EXPECT_EQ(mistake("features: []"),
            "run.yaml:1: model.features is empty; write some of concat, product, difference, "
            "distance");
  EXPECT_EQ(mistake("features: [concat, sum]"),
            "run.yaml:1: model.features[1] is 'sum'; one of: concat, product, difference, "
            "distance");
  EXPECT_EQ(mistake("{width: 10, heads: 3}"),
            "run.yaml:1: model.width 10 is not a multiple of model.heads 3; change one of them, or "
            "set model.head_width");
  auto splits = splits_of(kPairs, 3);
  splits.second_vocabulary = 12;
  EXPECT_EQ(error_of([&] { arranged(splits, small(Arrangement::towers)); }),
            "the sequences of a pair have different vocabularies; one encoder reads both; choose "
            "another objective");
}

}  // namespace
}  // namespace longbow
