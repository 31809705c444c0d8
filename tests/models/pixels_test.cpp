#include "longbow/models/encoder/pixels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/models/encoder/embedding.h"
#include "longbow/models/heads/classifier.h"
#include "longbow/models/heads/language_model.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

const PixelsConfig kHalf = {.mean = 0.5, .deviation = 0.25};
const Tolerance kClose = {1e-6, 1e-6};

Tensor ids(std::vector<int64_t> all) {
  return at::tensor(all, at::kLong).unsqueeze(0);
}

TEST(Pixels, ProjectTheNormalisedGreyValue) {
  Pixels pixels({.init = "xavier", .seed = 1}, kHalf, kPixelIds, 3);
  const auto weights = pixels.named_parameters();
  ASSERT_EQ(weights.size(), 2u) << "there is no mask";
  const at::NoGradGuard no_grad;
  weights["value.weight"].copy_(at::tensor({1.0, -2.0, 0.5}).unsqueeze(1));
  weights["value.bias"].copy_(at::tensor({10.0, 20.0, 30.0}));
  // Levels 0, 255 and 51 are the values 0, 1 and 0.2, and (x - 0.5) / 0.25 of them -2, 2 and -1.2.
  EXPECT_NEAR_TENSOR(pixels(ids({1, 256, 52})),
                     at::tensor({8.0, 24.0, 29.0, 12.0, 16.0, 31.0, 8.8, 22.4, 29.4})
                         .view({1, 3, 3})
                         .to(at::kFloat),
                     (Tolerance{1e-5, 1e-6}));
}

TEST(Pixels, AHiddenOneIsTheMaskWhateverItsValue) {
  Pixels pixels({.init = "xavier", .seed = 1}, kHalf, kPixelIds + 1, 3);
  const auto weights = pixels.named_parameters();
  ASSERT_EQ(weights.size(), 3u);
  const auto rows = pixels(ids({kMaskedPixel, 7}));
  EXPECT_NEAR_TENSOR(rows[0][0], weights["value.bias"] + weights["mask"], kClose);
  Pixels plain({.init = "xavier", .seed = 1}, kHalf, kPixelIds, 3);
  EXPECT_NEAR_TENSOR(rows[0][1], plain(ids({7}))[0][0], kExact)
      << "one that is not hidden is that of a model without a mask";
  EXPECT_GT(weights["mask"].abs().min().item<double>(), 0);
}

TEST(Pixels, AreRoundedOnceInHalfPrecision) {
  Pixels pixels({.init = "xavier", .seed = 1}, kHalf, kPixelIds, 3);
  pixels.to(at::kBFloat16);
  const auto levels = at::arange(0, kGreyLevels, at::kDouble);
  const auto weight = pixels.named_parameters()["value.weight"].to(at::kDouble).flatten();
  const auto got = pixels(at::arange(1, kPixelIds).unsqueeze(0));
  EXPECT_EQ(got.scalar_type(), at::kBFloat16);
  EXPECT_NEAR_TENSOR(got[0].to(at::kDouble), ((levels / 255 - 0.5) / 0.25).unsqueeze(1) * weight,
                     (Tolerance{0, 1.01 / 256}));
}

TEST(Pixels, HaveGradients) {
  Pixels pixels({.init = "xavier", .seed = 1}, kHalf, kPixelIds + 1, 3);
  pixels.to(at::kDouble);
  std::vector<Leaf> leaves;
  for (const auto& entry : pixels.named_parameters())
    leaves.push_back({entry.key(), entry.value()});
  EXPECT_TRUE(gradcheck([&] { return pixels(ids({1, 9, kMaskedPixel, 256})).pow(2); }, leaves));
}

TEST(Pixels, SayWhatTheyNeed) {
  const auto mistake = [](const PixelsConfig& config, int64_t count) {
    return error_of([&] { Pixels({.seed = 1}, config, count, 3); });
  };
  EXPECT_NE(mistake(kHalf, 10).find("pixels: 10 ids, expected 257 or one more for a mask"),
            std::string::npos);
  EXPECT_NE(mistake({}, kPixelIds).find("pixels: the deviation is not known"), std::string::npos);
}

EncoderConfig small() {
  EncoderConfig config = {.width = 8, .layers = 1, .max_length = 6};
  config.input = Input::pixels;
  config.pixels = kHalf;
  config.init = Init::xavier;
  return config;
}

TEST(Pixels, TakeThePlaceOfWordsInAnEmbedding) {
  for (const int64_t width : {0, 4}) {
    auto config = small();
    config.embedding_width = width;
    const Embedding made({.shape = {.width = 8}, .init = "xavier", .seed = 1}, config, kPixelIds);
    EXPECT_FALSE(made.words().defined());
    EXPECT_FALSE(made.named_parameters().contains("words"));
    EXPECT_EQ(made.named_parameters()["positions"].size(1), width == 0 ? 8 : width);
    const auto x = made(ids({1, 2, 3, 4}), {});
    EXPECT_EQ(x.sizes(), (at::IntArrayRef{1, 4, 8}));
    EXPECT_GT((x - made(ids({1, 200, 3, 4}), {})).abs().max().item<double>(), 1e-3);
  }
}

TEST(Pixels, PaddedOnesAreInvisible) {
  ClassifierConfig config;
  config.encoder = small();
  Classifier model(config, kPixelIds, 3, 1);
  Context padded = {.mask = Mask::from_lengths(at::tensor({4}, at::kLong), 6)}, whole;
  EXPECT_NEAR_TENSOR(model(ids({5, 1, 256, 9, 0, 0}), padded), model(ids({5, 1, 256, 9}), whole),
                     (Tolerance{1e-6, 1e-5}));
}

TEST(Pixels, ALanguageModelOfThemHasAnOutputMatrixOfItsOwn) {
  LanguageModelConfig config;
  config.encoder = small();
  config.head.tied = false;
  LanguageModel model(config, {kPixelIds + 1, kPixelIds}, 1);
  Context context;
  EXPECT_EQ(model(ids({1, kMaskedPixel, 3}), context).sizes(), (at::IntArrayRef{1, 3, 257}));
  config.head.tied = true;
  EXPECT_NE(error_of([&] {
              LanguageModel(config, {kPixelIds + 1, kPixelIds}, 1);
            }).find("language head: tied, but there are no words"),
            std::string::npos);
  const auto tree = parse_yaml("\n{input: pixels}", "m.yaml");
  EXPECT_EQ(error_of([&] { check_language_model(config, tree); }),
            "m.yaml:2: pixels have no word embeddings to be tied to; set model.tied: false");
}

}  // namespace
}  // namespace longbow
