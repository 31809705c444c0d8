#include "longbow/tensors/module_weights.h"

#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

class Pair : public torch::nn::Module {
 public:
  Pair() {
    register_parameter("a", at::zeros({2, 3}));
    register_buffer("b", at::zeros({4}));
  }
};

TEST(Weights, AreParametersAndBuffersByName) {
  Pair model;
  const auto weights = weights_of(model);
  EXPECT_EQ(weights.size(), 2u);
  EXPECT_FALSE(weights.at("a").requires_grad());
  load_weights(model, {{"a", at::ones({2, 3})}, {"b", at::full({4}, 2.0)}}, "file");
  EXPECT_NEAR_TENSOR(model.named_parameters()["a"], at::ones({2, 3}), kExact);
  EXPECT_NEAR_TENSOR(model.named_buffers()["b"], at::full({4}, 2.0), kExact);
}

TEST(Weights, ThatDoNotFitAreListed) {
  Pair model;
  EXPECT_EQ(error_of([&] {
              load_weights(model, {{"a", at::ones({3, 2})}, {"c", at::ones({1})}}, "m.safetensors");
            }),
            "m.safetensors: weights do not fit the model: a is [3, 2] instead of [2, 3], missing "
            "b, unexpected c");
  EXPECT_NEAR_TENSOR(model.named_parameters()["a"], at::zeros({2, 3}), kExact);
}

}  // namespace
}  // namespace longbow
