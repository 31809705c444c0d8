#include "longbow/train/optimizers/weights.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

class Toy : public Part {
 public:
  Toy() {
    weight = parameter("weight", random_normal({3, 4}, 1).to(at::kFloat));
    table = register_buffer("table", random_normal({5}, 2).to(at::kFloat));
    sums = exact_buffer("sums", random_normal({2}, 3).to(at::kFloat));
    count = register_buffer("count", at::arange(3, at::kLong));
  }
  Tensor weight, table, sums, count;
};

TEST(Weights, OfAModelThatComputesInFloat32AreItsParameters) {
  Toy toy;
  Weights weights(toy, at::kFloat);
  ASSERT_EQ(weights.all().size(), 1u);
  EXPECT_TRUE(weights.all()[0].value.is_same(weights.all()[0].parameter));
}

TEST(Weights, StayInFloat32WhereTheModelComputesInLess) {
  Toy toy;
  const auto start = toy.weight.detach().clone();
  Weights weights(toy, at::kBFloat16);
  const auto& weight = weights.all()[0];
  EXPECT_EQ(toy.weight.scalar_type(), at::kBFloat16);
  EXPECT_EQ(toy.table.scalar_type(), at::kBFloat16);
  EXPECT_NEAR_TENSOR(toy.sums, random_normal({2}, 3).to(at::kFloat), kExact);
  EXPECT_EQ(toy.count.scalar_type(), at::kLong);
  EXPECT_NEAR_TENSOR(weight.value, start, kExact);

  toy.weight.sum().backward();
  toy.weight.sum().backward();
  weights.collect();
  EXPECT_NEAR_TENSOR(weight.value.grad(), at::full({3, 4}, 2.0), kExact);
  EXPECT_NEAR_TENSOR(toy.weight.grad().to(at::kFloat), at::zeros({3, 4}), kExact);

  // A change that bfloat16 cannot tell adds up in float32.
  const at::NoGradGuard no_grad;
  auto value = weight.value;
  for (int i = 0; i < 64; ++i) value.mul_(1 + 0x1p-12);
  weights.publish();
  EXPECT_NEAR_TENSOR(toy.weight.to(at::kFloat), start * 1.0157, (Tolerance{0, 0.005}));
  EXPECT_FALSE(at::equal(toy.weight, start.to(at::kBFloat16)));
}

TEST(Weights, ThatNeedNoGradientStandApartAndKeepEveryDigit) {
  Toy toy, other;
  toy.weight.set_requires_grad(false);
  other.weight.set_requires_grad(false);
  const auto start = toy.weight.clone();
  Weights weights(toy, at::kBFloat16), copy(other, at::kBFloat16);
  EXPECT_TRUE(weights.all().empty());
  ASSERT_EQ(weights.frozen().size(), 1u);
  EXPECT_FALSE(toy.weight.grad().defined());
  EXPECT_NEAR_TENSOR(weights.saved().at("weight"), start, kExact);
  copy.load({{"weight", start + 1}, {"table", toy.table}, {"sums", toy.sums}, {"count", toy.count}},
            "file");
  EXPECT_NEAR_TENSOR(copy.saved().at("weight"), start + 1, kExact);
  EXPECT_NEAR_TENSOR(other.weight, (start + 1).to(at::kBFloat16), kExact);
}

TEST(Weights, AreSavedAndLoadedWithEveryDigit) {
  Toy first, second;
  Weights from(first, at::kBFloat16), to(second, at::kBFloat16);
  const at::NoGradGuard no_grad;
  Tensor(from.all()[0].value).add_(0x1p-20);
  to.load(from.saved(), "file");
  EXPECT_NEAR_TENSOR(to.all()[0].value, from.all()[0].value, kExact);
  EXPECT_EQ(from.saved().at("weight").scalar_type(), at::kFloat);
}

// 0.999 times a number of bfloat16 is that number again.
TEST(Weights, CentroidsOfRoutingGoOnMovingInAHalfType) {
  const Site site = {.shape = {.width = 6, .heads = 2, .max_length = 8}, .init = "xavier"};
  const auto mixer = make_mixer("routing", site, "{clusters: 1, window: 4}");
  const Weights weights(*mixer, at::kBFloat16);
  mixer->train();
  const auto x = random_normal({1, 1, 6}, 5).to(at::kBFloat16).expand({1, 4, 6});
  const at::NoGradGuard no_grad;
  for (int64_t step = 0; step < 3000; ++step) {
    Context context;
    (void)(*mixer)(x, context);
    mixer->after_step(step);
  }
  const auto parameters = mixer->named_parameters();
  const auto q = at::linear(x, parameters["query.weight"], parameters["query.bias"]);
  const auto rows = q[0][0].to(at::kDouble).view({2, 3});
  const auto cosines = at::cosine_similarity(
      rows, mixer->named_buffers()["centroids"].squeeze(1).to(at::kDouble), -1);
  EXPECT_GT(cosines.min().item<double>(), 0.98);
}

}  // namespace
}  // namespace longbow
