#include "longbow/nn/features/random_features.h"

#include <ATen/ATen.h>

#include "longbow/nn/contract/part.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 8;

class Owner : public Part {
 public:
  explicit Owner(const Draw& draw, uint64_t seed = 3)
      : omega(*this, {.path = "layer", .seed = seed}, "omega", draw) {}
  void after_step(int64_t step) override { omega.after_step(step); }
  Tensor now() const { return (*omega).clone(); }
  RandomMatrices omega;
};

Tensor rows_of(const Draw& draw) {
  return drawn(draw, Random::from_seed(5), "rows").to(at::kDouble);
}

TEST(RandomFeatures, RowsOfABlockAreOrthogonal) {
  const auto rows = rows_of({.matrices = 2, .rows = 19, .width = kWidth});
  EXPECT_EQ(rows.sizes(), at::IntArrayRef({2, 19, kWidth}));
  EXPECT_FALSE(rows[0].allclose(rows[1]));
  for (const int64_t first : {0, 8, 16}) {
    const auto block = rows.narrow(1, first, first == 16 ? 3 : 8);
    const auto gram = block.matmul(block.transpose(-2, -1));
    EXPECT_NEAR_TENSOR(gram, at::diag_embed(gram.diagonal(0, 1, 2)), (Tolerance{1e-5, 0}));
  }
}

TEST(RandomFeatures, FixedRowsAreAllOfOneLength) {
  for (const bool orthogonal : {false, true}) {
    const auto rows =
        rows_of({.rows = 30, .width = kWidth, .orthogonal = orthogonal, .norms = RowNorms::fixed});
    EXPECT_NEAR_TENSOR(rows.square().sum(-1), at::full({1, 30}, 8.0), (Tolerance{1e-5, 0}));
  }
}

// Without the signs of R's diagonal the first entries of Q are negative far too often. The mean
// square of a row's length is that of a normal vector, D.
TEST(RandomFeatures, RowsHaveNoPreferredDirectionAndTheLengthsOfNormalVectors) {
  for (const bool orthogonal : {false, true}) {
    const auto rows = rows_of({.rows = 8000, .width = kWidth, .orthogonal = orthogonal})[0];
    EXPECT_NEAR_TENSOR(rows.mean(0), at::zeros({kWidth}), (Tolerance{0.05, 0}));
    EXPECT_NEAR_TENSOR(rows.t().matmul(rows) / 8000, at::eye(kWidth), (Tolerance{0.06, 0}));
    const auto diagonal = rows.view({1000, kWidth, kWidth}).diagonal(0, 1, 2);
    EXPECT_NEAR_TENSOR(diagonal.mean(0), at::zeros({kWidth}), (Tolerance{0.15, 0}));
    EXPECT_GT(rows.norm(2, -1).std().item<double>(), 0.5);  // chi, not a constant
  }
}

TEST(RandomFeatures, IndependentRowsAreNotOrthogonal) {
  const auto rows = rows_of({.rows = 8, .width = kWidth, .orthogonal = false})[0];
  EXPECT_GT(rows.matmul(rows.t()).triu(1).abs().max().item<double>(), 0.5);
}

TEST(RandomFeatures, TheyAreABufferOfTheirOwner) {
  const Owner owner({.rows = 4, .width = kWidth});
  const auto buffers = owner.named_buffers();
  ASSERT_TRUE(buffers.contains("omega"));
  EXPECT_TRUE(owner.parameters().empty());
  const at::NoGradGuard no_grad;
  buffers["omega"].fill_(2);
  EXPECT_NEAR_TENSOR(*owner.omega, at::full({1, 4, kWidth}, 2.0), kExact);
}

TEST(RandomFeatures, TrainingDrawsAnewAndEvaluationNever) {
  const Draw draw = {.rows = 4, .width = kWidth, .redraw = 10};
  Owner owner(draw), resumed(draw), other(draw, 4), frozen({.rows = 4, .width = kWidth});
  const auto first = owner.now();
  owner.eval();
  owner.after_step(9);
  EXPECT_NEAR_TENSOR(owner.now(), first, kExact);
  owner.train();
  for (int64_t step = 0; step < 9; ++step) owner.after_step(step);
  EXPECT_NEAR_TENSOR(owner.now(), first, kExact);
  owner.after_step(9);
  const auto second = owner.now();
  EXPECT_FALSE(second.allclose(first));
  owner.after_step(19);
  EXPECT_FALSE(owner.now().allclose(second));
  for (auto* each : {&resumed, &other, &frozen}) each->after_step(19);
  EXPECT_NEAR_TENSOR(resumed.now(), owner.now(), kExact);  // seed and step alone decide
  EXPECT_FALSE(other.now().allclose(owner.now()));
  EXPECT_NEAR_TENSOR(frozen.now(), first, kExact);
}

TEST(RandomFeatures, APoolIsDrawnOnceAndPickedFrom) {
  Owner owner({.matrices = 2, .rows = 4, .width = kWidth, .redraw = 1, .pool = 7});
  const auto pool = owner.named_buffers()["pool"].clone();
  EXPECT_EQ(pool.sizes(), at::IntArrayRef({7, 4, kWidth}));
  int64_t moved = 0;
  for (int64_t step = 0; step < 8; ++step) {
    owner.after_step(step);
    const auto same = (owner.now().unsqueeze(1) == pool.unsqueeze(0)).flatten(2).all(-1);
    EXPECT_TRUE(same.sum(1).equal(at::ones({2}, at::kLong))) << "each is one of the pool";
    EXPECT_LE(same.sum(0).max().item<int64_t>(), 1) << "no two are the same";
    moved += owner.now().equal(pool.narrow(0, 0, 2)) ? 0 : 1;
  }
  EXPECT_GE(moved, 6);
  owner.eval();
  EXPECT_NEAR_TENSOR(owner.now(), pool.narrow(0, 0, 2), kExact);
  EXPECT_NEAR_TENSOR(owner.named_buffers()["pool"], pool, kExact);
}

}  // namespace
}  // namespace longbow
