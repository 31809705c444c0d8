#include "longbow/models/perceiver/perceiver_classifier.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/models/hugging_face.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

Node yaml(const std::string& text) {
  return parse_yaml(text, "model.yaml");
}

constexpr int64_t kVocabulary = 11, kClasses = 3, kLength = 12;
const Tolerance kTight = {1e-11, 1e-11};

PerceiverClassifierConfig small(const std::string& more = "") {
  return read<PerceiverClassifierConfig>(
      yaml("{width: 8, heads: 2, layers: 1, max_length: 12, init: xavier, latents: 4, repeats: 2, "
           "embedding_width: 6, fourier: {bands: 2}" +
           more + "}"),
      "model");
}

std::shared_ptr<PerceiverClassifier> model(const PerceiverClassifierConfig& config, bool per_token,
                                           uint64_t seed = 1) {
  auto made = std::make_shared<PerceiverClassifier>(config, kVocabulary, kClasses, per_token, seed);
  made->to(at::kDouble);
  made->eval();
  return made;
}

Tensor tokens(int64_t batch, int64_t length) {
  return (at::arange(batch * length) * 7).remainder(kVocabulary - 1).add(1).view({batch, length});
}

Tensor run(PerceiverClassifier& classifier, const Tensor& words,
           const std::vector<int64_t>& lengths = {}) {
  Context context;
  if (!lengths.empty()) context.mask = Mask::from_lengths(at::tensor(lengths), words.size(1));
  return classifier(words, context);
}

const char* const kOutputs[] = {"", ", output: {queries: positions, width: 10, heads: 2}",
                                ", output: {residual: false, head_width: 3, heads: 2}"};

TEST(PerceiverClassifier, OneAnswerIsThatOfTheMeanLatent) {
  const at::NoGradGuard no_grad;
  const auto config = small();
  const auto classifier = model(config, false);
  const auto got = run(*classifier, tokens(2, 9));
  ASSERT_EQ(got.sizes(), (at::IntArrayRef{2, kClasses}));
  PerceiverInput input(config, kVocabulary, 1);
  Perceiver perceiver(config, config.channels(), 1);
  input.to(at::kDouble);
  perceiver.to(at::kDouble);
  Context context;
  const auto mean = perceiver(input(tokens(2, 9), context), context).mean(1);
  const auto centred = mean - mean.mean(-1, true);
  const auto normed = centred / (centred.square().mean(-1, true) + 1e-5).sqrt();
  const auto parameters = classifier->named_parameters();
  EXPECT_NEAR_TENSOR(
      got, normed.matmul(parameters["output.weight"].t()) + parameters["output.bias"], kTight);
}

TEST(PerceiverClassifier, PaddingAndNeighboursChangeNothing) {
  const at::NoGradGuard no_grad;
  const std::vector<int64_t> lengths = {12, 5, 1};
  for (const bool per_token : {false, true})
    for (const auto* output : kOutputs) {
      const auto classifier = model(small(output), per_token);
      const auto batch = tokens(3, kLength);
      const auto together = run(*classifier, batch, lengths);
      for (int64_t row = 0; row < 3; ++row) {
        const auto n = lengths[static_cast<size_t>(row)];
        const auto alone = run(*classifier, batch.narrow(0, row, 1).narrow(1, 0, n))[0];
        EXPECT_NEAR_TENSOR(per_token ? together[row].narrow(0, 0, n) : together[row], alone, kTight)
            << output;
      }
    }
}

// Queries of positions know nothing of the token; those of tokens do.
TEST(PerceiverClassifier, QueriesAreTokensOrPositions) {
  const at::NoGradGuard no_grad;
  auto first = tokens(1, 6), second = first.flip(1);
  for (const bool learned : {false, true}) {
    auto config = small(learned ? ", output: {queries: positions}" : "");
    config.encoder.positions = Positions::none;
    config.fourier.bands = 0;
    const auto classifier = model(config, true);
    EXPECT_EQ(classifier->named_parameters().contains("queries"), learned);
    const auto there = run(*classifier, first), back = run(*classifier, second);
    EXPECT_TRUE(near_tensor(learned ? back : back.flip(1), there, kTight)) << learned;
    EXPECT_FALSE(near_tensor(learned ? back.flip(1) : back, there, kTight)) << learned;
  }
}

TEST(PerceiverClassifier, GradientsAreThoseOfDifferences) {
  for (const bool per_token : {false, true})
    for (const auto* output : kOutputs) {
      const auto classifier = model(small(output), per_token);
      std::vector<Leaf> leaves;
      for (const auto& entry : classifier->named_parameters()) {
        const at::NoGradGuard no_grad;  // tables of ordinary size: norms bend little there
        if (entry.value().dim() == 2 && entry.key().find("weight") == std::string::npos)
          Tensor(entry.value()).mul_(30);
        leaves.push_back({entry.key(), entry.value()});
      }
      EXPECT_TRUE(gradcheck(
          [&] {
            const auto y = run(*classifier, tokens(2, 6), {6, 4});
            return per_token ? at::cat({y[0], y[1].narrow(0, 0, 4)}) : y;
          },
          leaves))
          << output;
      if (!per_token) break;
    }
}

TEST(PerceiverClassifier, ASavedModelIsTheSame) {
  const at::NoGradGuard no_grad;
  const auto classifier = model(small(kOutputs[1]), true),
             other = model(small(kOutputs[1]), true, 2);
  std::map<std::string, Tensor> saved;
  for (const auto& entry : classifier->named_parameters()) saved[entry.key()] = entry.value();
  for (const auto& entry : classifier->named_buffers()) saved[entry.key()] = entry.value();
  const auto file = (scratch_folder() / "model.safetensors").string();
  save_safetensors(file, saved);
  const auto loaded = load_safetensors(file).tensors;
  const auto want = run(*classifier, tokens(2, 8));
  EXPECT_FALSE(at::equal(run(*other, tokens(2, 8)), want));
  for (const auto& entry : other->named_parameters())
    Tensor(entry.value()).copy_(loaded.at(entry.key()));
  EXPECT_NEAR_TENSOR(run(*other, tokens(2, 8)), want, kExact);
}

TEST(PerceiverClassifier, AConfigThatCannotBeBuiltSaysWhere) {
  const auto checked = [](const std::string& text) {
    const auto tree = yaml("width: 8\nheads: 2\n" + text);
    return error_of(
        [&] { check_perceiver_classifier(read<PerceiverClassifierConfig>(tree, "model"), tree); });
  };
  EXPECT_EQ(checked("layers: 1"), "");
  EXPECT_EQ(checked("output: {queries: positions, width: 6, heads: 3}"), "");
  EXPECT_EQ(
      checked("output: {width: 6}"),
      "model.yaml:3: model.output.width is that of learned queries, but the tokens ask; leave "
      "it out, or set model.output.queries: positions");
  EXPECT_EQ(
      checked("fourier: {bands: 3}\noutput:\n  heads: 2"),
      "model.yaml:5: rows of 15 channels do not divide among model.output.heads 2; change one "
      "of them, or set model.output.head_width");
  EXPECT_EQ(checked("cross: {haeds: 2}"),
            "model.yaml:3: unknown key 'haeds'; did you mean 'heads'?");
}

}  // namespace
}  // namespace longbow
