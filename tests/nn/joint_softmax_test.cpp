#include "longbow/nn/softmax/joint_softmax.h"

#include <ATen/ATen.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(JointSoftmax, IsOneSoftmaxOverAllFamilies) {
  const auto q = random_normal({2, 3, 6, 4}, 1), k = random_normal({2, 3, 5, 4}, 2),
             v = random_normal({2, 3, 5, 4}, 3), other_k = random_normal({2, 3, 7, 4}, 4),
             other_v = random_normal({2, 3, 7, 4}, 5);
  const auto visible = random_normal({2, 1, 6, 7}, 6) > 0;
  const auto scores = [&](const Tensor& keys) { return q.matmul(keys.transpose(-2, -1)); };
  Context context;
  const auto all = at::cat({at::ones({2, 1, 6, 5}, at::kBool), visible}, -1);
  const auto want =
      softmax_read(q, at::cat({k, other_k}, 2), at::cat({v, other_v}, 2), all, {}, context);
  EXPECT_NEAR_TENSOR(
      joint_softmax({{scores(k), {}, v}, {scores(other_k), visible, other_v}}, {}, context), want,
      tolerance(at::kDouble));

  // The same by tiles of 3 queries; values of all tiles have no dimension for them.
  const auto tiles = [](const Tensor& x) { return x.unflatten(2, {2, 3}); };
  const auto by_tile = other_v.unsqueeze(2).expand({-1, -1, 2, -1, -1});
  Tensors maps;
  context.maps = &maps;
  const auto y =
      joint_softmax({{tiles(scores(k)), {}, v}, {tiles(scores(other_k)), tiles(visible), by_tile}},
                    {.path = "layer"}, context);
  EXPECT_NEAR_TENSOR(y.flatten(2, 3), want, tolerance(at::kDouble));
  EXPECT_EQ(maps.at("layer").sizes(), at::IntArrayRef({2, 3, 2, 3, 12}));
}

TEST(JointSoftmax, AQueryThatSeesNothingReadsZero) {
  const auto scores = random_normal({1, 1, 2, 3}, 1), v = random_normal({1, 1, 3, 4}, 2);
  const auto none = at::zeros({1, 1, 2, 3}, at::kBool);
  Context context;
  EXPECT_NEAR_TENSOR(joint_softmax({{scores, none, v}, {scores, none, v}}, {}, context),
                     at::zeros({1, 1, 2, 4}, at::kDouble), kExact);
}

}  // namespace
}  // namespace longbow
