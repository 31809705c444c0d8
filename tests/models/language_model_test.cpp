#include "longbow/models/heads/language_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

LanguageModelConfig small() {
  LanguageModelConfig config;
  config.encoder.width = 8;
  config.encoder.layers = 1;
  config.encoder.max_length = 6;
  config.encoder.init = Init::xavier;
  return config;
}

Tensor tokens() {
  return at::tensor({1, 2, 3, 4, 1, 2, 4, 3, 0, 0, 0, 0}, at::kLong).view({2, 6});
}

TEST(LanguageModel, TheHeadIsLayerActivationNormAndTheWordsThemselves) {
  LanguageModel model(small(), {.inputs = 6, .outputs = 5}, 1);
  auto weights = model.named_parameters();
  const at::NoGradGuard no_grad;
  weights["head.bias"].copy_(at::arange(5));
  Context context, same;
  auto encoder = std::dynamic_pointer_cast<Encoder>(model.named_children()["encoder"]);
  const auto x = (*encoder)(tokens(), context);
  auto y =
      at::gelu(x.matmul(weights["head.transform.weight"].t()) + weights["head.transform.bias"]);
  y = (y - y.mean(-1, true)) / (y.var(-1, false, true) + 1e-5).sqrt();
  const auto want =
      y.matmul(weights["encoder.embedding.words"].narrow(0, 0, 5).t()) + at::arange(5);
  const auto got = model(tokens(), same);
  EXPECT_EQ(got.sizes(), (at::IntArrayRef{2, 6, 5}));
  EXPECT_NEAR_TENSOR(got, want, tolerance(at::kFloat));
  EXPECT_FALSE(weights.contains("head.words"));
}

TEST(LanguageModel, TheNormOfTheHeadHasTheEpsilonOfAllNorms) {
  auto config = small();
  config.encoder.block.norm_epsilon = 0.5;
  LanguageModel model(config, {.inputs = 6, .outputs = 5}, 1);
  const auto weights = model.named_parameters();
  Context context, same;
  auto encoder = std::dynamic_pointer_cast<Encoder>(model.named_children()["encoder"]);
  const auto x = (*encoder)(tokens(), context);
  auto y =
      at::gelu(x.matmul(weights["head.transform.weight"].t()) + weights["head.transform.bias"]);
  y = (y - y.mean(-1, true)) / (y.var(-1, false, true) + 0.5).sqrt();
  EXPECT_NEAR_TENSOR(model(tokens(), same),
                     y.matmul(weights["encoder.embedding.words"].narrow(0, 0, 5).t()),
                     tolerance(at::kFloat));
}

TEST(LanguageModel, APlainHeadWithAMatrixOfItsOwn) {
  auto config = small();
  config.head = {.tied = false, .transform = false};
  LanguageModel model(config, {.inputs = 5, .outputs = 5}, 1);
  auto weights = model.named_parameters();
  Context context, same;
  auto encoder = std::dynamic_pointer_cast<Encoder>(model.named_children()["encoder"]);
  const auto want = (*encoder)(tokens(), context).matmul(weights["head.words"].t());
  EXPECT_NEAR_TENSOR(model(tokens(), same), want, tolerance(at::kFloat));
  EXPECT_FALSE(weights.contains("head.transform.weight"));
}

TEST(LanguageModel, TiedWordsLearnFromBothEnds) {
  for (const bool tied : {true, false}) {
    auto config = small();
    config.head.tied = tied;
    LanguageModel model(config, {.inputs = 6, .outputs = 5}, 1);
    Context context;
    model(tokens(), context).select(-1, 3).sum().backward();
    const auto gradient = model.named_parameters()["encoder.embedding.words"].grad();
    // Word 5 is neither read nor an answer; with words 1-4 both are possible.
    EXPECT_EQ(gradient[5].abs().sum().item<double>(), 0);
    EXPECT_GT(gradient[3].abs().sum().item<double>(), 0);
    const auto other =
        model.named_parameters()[tied ? "encoder.embedding.words" : "head.words"].grad()[3];
    EXPECT_GT(other.abs().sum().item<double>(), 0);
  }
}

TEST(LanguageModel, ACausalOneDoesNotSeeTheFuture) {
  auto config = small();
  config.encoder.causal = true;
  LanguageModel model(config, {.inputs = 5, .outputs = 5}, 1);
  Context before, after;
  auto changed = tokens().clone();
  const auto first = model(changed, before).narrow(1, 0, 3);
  changed.narrow(1, 3, 3).fill_(2);
  EXPECT_NEAR_TENSOR(model(changed, after).narrow(1, 0, 3), first, kExact);
}

// Mechanisms that can write a text.
std::vector<Node> writing() {
  std::vector<Node> all = {
      parse_yaml("{name: local, window: 2}", "m"),
      parse_yaml("[{name: linear, layers: 0}, {name: local, layers: 1}]", "m")};
  for (const auto& mechanism : mechanisms()) {
    const auto promises = mechanism.promises(Node::map());
    if (promises.future != Future::refused && promises.decode)
      all.push_back(Node::string(mechanism.name));
  }
  return all;
}

std::shared_ptr<LanguageModel> writer(const Node& attention,
                                      Positions positions = Positions::learned) {
  LanguageModelConfig config;
  config.encoder.width = 8;
  config.encoder.max_length = 64;  // at least the default rank
  config.encoder.causal = true;
  config.encoder.init = Init::xavier;
  config.encoder.positions = positions;
  config.encoder.attention = attention;
  auto model = std::make_shared<LanguageModel>(config, Vocabulary{7, 7}, 2);
  model->to(at::kDouble);
  model->eval();
  return model;
}

const std::vector<std::vector<int64_t>> kPrompts = {{3}, {4, 1, 5, 6}, {2, 6, 1}};

Prompt prompts() {
  auto tokens = at::zeros({3, 4}, at::kLong);
  std::vector<int64_t> lengths;
  for (size_t b = 0; b < kPrompts.size(); ++b) {
    lengths.push_back(std::ssize(kPrompts[b]));
    tokens[static_cast<int64_t>(b)].narrow(0, 0, lengths.back()).copy_(at::tensor(kPrompts[b]));
  }
  return {tokens, Mask::from_lengths(at::tensor(lengths), 4).keep};
}

TEST(LanguageModel, WritesGreedilyWhatTheWholePrefixMakesMostProbable) {
  const at::NoGradGuard no_grad;
  for (const auto& attention : writing())
    for (const auto positions : {Positions::learned, Positions::sinusoidal}) {
      const auto model = writer(attention, positions);
      const auto got = decode(model->continuation(3, {}), prompts(), -1, {.max_length = 6});
      for (size_t b = 0; b < kPrompts.size(); ++b) {
        auto text = kPrompts[b];
        double sum = 0;
        for (int64_t step = 0; step < 6; ++step) {
          Context context;
          const auto all = (*model)(at::tensor(text).unsqueeze(0), context);
          const auto last = all[0][-1].log_softmax(-1);
          text.push_back(last.argmax().item<int64_t>());
          sum += last.max().item<double>();
        }
        const auto lane = static_cast<int64_t>(b);
        const auto want = at::tensor(text).narrow(0, std::ssize(kPrompts[b]), 6);
        EXPECT_TRUE(at::equal(got.tokens[lane][0], want)) << to_yaml(attention) << " lane " << b;
        EXPECT_NEAR(got.scores[lane][0].item<double>(), sum, 1e-9) << to_yaml(attention);
      }
    }
}

// The same model without a state: every step reads the whole prefix of its only text.
Continuation without_state(const std::shared_ptr<LanguageModel>& model) {
  return {.lanes = 1,
          .longest = 64,
          .start =
              [](int64_t) {
                State state;
                state.lane["tokens"] = at::zeros({1, 0}, at::kLong);
                state.fill["tokens"] = 0;
                return state;
              },
          .next =
              [model](const Tensor& tokens, const Tensor&, State& state) {
                auto& all = state.lane.at("tokens");
                all = at::cat({all, tokens}, 1);
                Context context;
                return (*model)(all, context).select(1, -1);
              }};
}

TEST(LanguageModel, BeamSearchWithAStateEqualsReadingEveryPrefixAgain) {
  constexpr int64_t kEnd = 2;
  for (const auto& attention : writing()) {
    const auto model = writer(attention);
    const DecodingConfig config = {.method = DecodingMethod::beam,
                                   .max_length = 7,
                                   .n_best = 3,
                                   .beams = 4,
                                   .length_penalty = 0.6};
    const auto got = decode(model->continuation(3, {}), prompts(), kEnd, config);
    for (size_t b = 0; b < kPrompts.size(); ++b) {
      const Prompt alone = {at::tensor(kPrompts[b]).unsqueeze(0)};
      const auto want = decode(without_state(model), alone, kEnd, config);
      const auto lane = static_cast<int64_t>(b);
      EXPECT_TRUE(at::equal(got.tokens[lane], want.tokens[0])) << to_yaml(attention);
      EXPECT_NEAR_TENSOR(got.scores[lane], want.scores[0], (Tolerance{1e-9, 0}));
    }
  }
}

TEST(LanguageModel, HoldsAsManyTokensAsItsEncoder) {
  EXPECT_EQ(writer(Node::string("softmax"))->continuation(5, {}).longest, 64);
  auto masked = std::make_shared<LanguageModel>(small(), Vocabulary{6, 5}, 1);
  EXPECT_NE(error_of([&] { masked->continuation(1, {}).start(3); }).find("only a causal one"),
            std::string::npos);
}

TEST(LanguageModel, ReadsTheWordsOfAnotherThroughAProjection) {
  const auto words = random_normal({6, 12}, 3).to(at::kFloat);
  LanguageModel model(small(), {.inputs = 6, .outputs = 5}, 1, words);
  const auto weights = model.named_parameters();
  EXPECT_FALSE(weights.contains("encoder.embedding.words"));
  EXPECT_EQ(weights["encoder.embedding.projection.weight"].sizes(), (at::IntArrayRef{8, 12}));
  EXPECT_EQ(weights["head.transform.weight"].sizes(), (at::IntArrayRef{12, 8}));
  Context context;
  EXPECT_EQ(model(tokens(), context).sizes(), (at::IntArrayRef{2, 6, 5}));
  auto plain = small();
  plain.head.transform = false;
  EXPECT_NE(error_of([&] {
              LanguageModel(plain, {.inputs = 6, .outputs = 5}, 1, words);
            }).find("words of width 12 are tied to a model of width 8; set transform: true"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow
