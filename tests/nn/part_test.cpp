#include "longbow/nn/contract/part.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/nn/contract/linear.h"
#include "longbow/nn/layers/layer_norm.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

const Site kSite = {.path = "layer", .seed = 1};

TEST(Hints, BiasesAndNormsDoNotDecay) {
  const Linear linear(kSite, 4, 5);
  EXPECT_TRUE(linear.hints().at("weight").decay);
  EXPECT_FALSE(linear.hints().at("bias").decay);
  EXPECT_FALSE(LayerNorm(4).hints().at("weight").decay);
  EXPECT_FALSE(Linear(kSite, 4, 5, false).bias.defined());
}

}  // namespace
}  // namespace longbow
