#include "longbow/models/decoder/decoder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(Decoder, TheLastNormHasTheEpsilonOfAllNorms) {
  constexpr double kEpsilon = 0.5;
  DecoderConfig config = {.width = 8, .layers = 1, .max_length = 4, .init = Init::xavier};
  config.block.residual = Residual::pre_norm;
  config.block.norm_epsilon = kEpsilon;
  Decoder decoder(config, {.vocabulary = 5, .memory_width = 6, .memory_length = 3, .seed = 1});
  decoder.to(at::kDouble);
  const auto tokens = at::tensor({1, 2, 3, 4, 4, 3, 2, 1}, at::kLong).view({2, 4});
  const auto memory = random_normal({2, 3, 6}, 1);
  Context context = {.memory = memory}, inner = {.mask = {.causal = true}, .memory = memory};
  const auto weights = decoder.named_parameters();
  const auto layers = std::dynamic_pointer_cast<Stack>(decoder.named_children()["layers"]);
  const auto x = (*layers)(
      at::embedding(weights["embedding.words"], tokens) + weights["embedding.positions"], inner);
  EXPECT_NEAR_TENSOR(decoder(tokens, context),
                     (x - x.mean(-1, true)) / (x.var(-1, false, true) + kEpsilon).sqrt(),
                     (Tolerance{1e-10, 0}));
}

}  // namespace
}  // namespace longbow
