#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

Tensor features(const Tensor& x, const std::string& map) {
  if (map == "relu") return x.clamp_min(0);
  return map == "square" ? x * x : at::where(x > 0, x + 1, x.exp());
}

// phi(q_i) . phi(k_j) instead of exp(q_i . k_j), with epsilon added to the sum.
Tensor linear(const Node& options, const Tensor& q, const Tensor& k, const Tensor& v,
              const Tensor& visible) {
  const auto map = as_string(*options.find("map"), "map");
  const double epsilon = as_number(*options.find("epsilon"), "epsilon");
  const auto weights = features(q, map).matmul(features(k, map).transpose(-2, -1)) * visible;
  return weights.matmul(v) / (weights.sum(-1, true) + epsilon);
}

const bool registered =
    oracle::add("linear", [](const torch::nn::Module& mixer, const Node& options, const Site& site,
                             const Tensor& x, const Context& context) {
      return oracle::multi_head(
          mixer, site, x, context,
          [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
            return linear(options, q, k, v, visible);
          });
    });

const Site kSite = {.shape = {.width = 6, .heads = 2, .head_width = 3, .max_length = 64},
                    .init = "xavier"};

Mixer made(const std::string& options = "") {
  const auto mixer = make_mixer("linear", kSite, options);
  mixer->to(at::kDouble);
  return mixer;
}

TEST(Linear, OneKeyGivesItsValue) {
  const auto mixer = made();
  const auto x = random_normal({2, 1, 6}, 1);
  Context context;
  const auto value = x.matmul(oracle::tensor_of(*mixer, "value.weight").t());
  EXPECT_NEAR_TENSOR((*mixer)(x, context),
                     value.matmul(oracle::tensor_of(*mixer, "output.weight").t()),
                     (Tolerance{1e-5, 1e-5}));
}

// The recurrence as the paper writes it: S_t = S_{t-1} + phi(k_t) v_t^T, z_t = z_{t-1} + phi(k_t).
TEST(Linear, CausallyItIsTheRecurrence) {
  const auto mixer = made();
  const auto x = random_normal({1, 40, 6}, 2);
  const auto projected = [&](const std::string& name) {
    return split_heads(x.matmul(oracle::tensor_of(*mixer, name + ".weight").t()),
                       2)[0];  // [H, N, D]
  };
  const auto q = features(projected("query"), "elu"), k = features(projected("key"), "elu"),
             v = projected("value");
  auto sums = at::zeros({2, 3, 3}, at::kDouble), z = at::zeros({2, 3, 1}, at::kDouble);
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < 40; ++t) {
    const auto row = [&](const Tensor& heads) { return heads.narrow(1, t, 1); };  // [H, 1, D]
    sums = sums + row(k).transpose(1, 2).matmul(row(v));
    z = z + row(k).transpose(1, 2);
    rows.push_back(row(q).matmul(sums) / (row(q).matmul(z) + 1e-6));
  }
  const auto merged = merge_heads(at::cat(rows, 1).unsqueeze(0));
  Context context = {.mask = {.causal = true}};
  EXPECT_NEAR_TENSOR((*mixer)(x, context),
                     merged.matmul(oracle::tensor_of(*mixer, "output.weight").t()),
                     tolerance(at::kDouble));
}

TEST(Linear, TheStateIsOneSumPerHeadWhateverTheLength) {
  const auto mixer = made();
  State state;
  Context context;
  mixer->start(state, 2, 1000000, context);
  ASSERT_EQ(state.lane.size(), 1u);
  EXPECT_EQ(state.lane.at("sums").sizes(), at::IntArrayRef({2, 2, 3, 4}));
}

TEST(Linear, TheStateOfHalfTypesIsFloat32) {
  const auto mixer = make_mixer("linear", kSite);
  mixer->to(at::kBFloat16);
  State state;
  Context context;
  mixer->start(state, 1, 8, context);
  EXPECT_EQ(state.lane.at("sums").scalar_type(), at::kFloat);
}

TEST(Linear, EachMapGivesOtherValues) {
  const auto x = random_normal({1, 9, 6}, 3);
  Context context;
  const auto elu = (*made("{map: elu}"))(x, context), relu = (*made("{map: relu}"))(x, context),
             square = (*made("{map: square}"))(x, context);
  EXPECT_FALSE(elu.allclose(relu));
  EXPECT_FALSE(elu.allclose(square));
  EXPECT_FALSE(relu.allclose(square));
}

TEST(Linear, AQueryWithoutFeaturesReadsNothing) {
  const auto mixer = made("{map: relu}");
  {
    const at::NoGradGuard no_grad;
    mixer->named_parameters()["query.bias"].fill_(-1e3);
    mixer->named_parameters()["output.bias"].fill_(0.25);
  }
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(random_normal({1, 5, 6}, 4), context), at::full({1, 5, 6}, 0.25),
                     kExact);
}

TEST(Linear, RefusesOptionsThatItDoesNotHave) {
  EXPECT_EQ(error_of([] { (void)made("{map: softmax}"); }),
            "linear options:1: linear.map is 'softmax'; one of: elu, relu, square");
  EXPECT_EQ(error_of([] { (void)made("{epsilon: 0}"); }),
            "linear options:1: linear.epsilon is 0, out of range; it may be > 0");
}

}  // namespace
}  // namespace longbow
