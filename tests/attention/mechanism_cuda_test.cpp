// Mechanisms whose half types have kernels on a GPU, with heads as wide as the kernels take,
// against float64 on the CPU.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

const at::Device kDevice("cuda:0");
constexpr int64_t kTokens = 256, kWidth = 128;
const Site kSite = {.shape = {.width = kWidth, .heads = 2, .max_length = kTokens},
                    .init = "xavier"};

struct Case {
  std::string name, options = "";
};

enum class Masking { none, padded, causal };

// Values, and gradients of the tokens and of all parameters, from weights that were rounded.
std::vector<Tensor> results(const Case& of, Masking masking, at::ScalarType type, at::Device device,
                            bool looks) {
  const auto mixer = make_mixer(of.name, kSite, of.options);
  mixer->to(at::kBFloat16);
  mixer->to(device, type);
  mixer->train();
  const auto drawn = [&](uint64_t seed) {
    return random_normal({2, kTokens, kWidth}, seed).to(at::kBFloat16).to(device, type);
  };
  const auto x = drawn(1).requires_grad_();
  Tensors maps;
  Context context;
  context.mask.causal = masking == Masking::causal;
  if (masking == Masking::padded)
    context.mask.keep =
        Mask::from_lengths(at::tensor({kTokens, int64_t{37}}, at::kLong), kTokens).keep.to(device);
  if (looks) context.maps = &maps;
  const auto y = (*mixer)(x, context);
  std::vector<Tensor> leaves = {x};
  for (const auto& parameter : mixer->parameters()) leaves.push_back(parameter);
  auto found = torch::autograd::grad({y}, leaves, {drawn(2)}, {}, false, /*allow_unused=*/true);
  found.insert(found.begin(), y.detach());
  for (auto& one : found)
    if (one.defined()) one = one.cpu().to(at::kDouble);
  return found;
}

void expect_near(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  constexpr double kFew = 0.08;  // roundings of a whole layer; anything else is wrong by more
  ASSERT_EQ(got.size(), want.size());
  double largest = 0;
  for (const auto& one : want)
    if (one.defined()) largest = std::max(largest, one.norm().item<double>());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].defined(), want[i].defined()) << i;
    if (!got[i].defined()) continue;
    const double size = want[i].norm().item<double>();
    // What cancels, such as the gradient of a bias before a softmax, is measured by the others.
    EXPECT_LE((got[i] - want[i]).norm().item<double>(), kFew * std::max(size, 1e-2 * largest)) << i;
  }
}

std::vector<Masking> maskings(const Case& of) {
  const auto promises = find_mechanism(of.name).promises(
      parse_yaml(of.options.empty() ? "{}" : of.options, "options"));
  std::vector<Masking> found = {Masking::none, Masking::padded};
  if (promises.future != Future::refused) found.push_back(Masking::causal);
  return found;
}

TEST(KernelsCuda, AgreeWithFloat64) {
  for (const auto& of : {Case{"nystromformer"},
                         {"nystromformer", "{landmarks: 16, conv: 5}"},
                         {"abc"},
                         {"abc", "{slots: 16, share_heads: true}"},
                         {"linformer"},
                         {"linformer", "{rank: 16, method: mean_pool}"},
                         {"luna"},
                         {"luna", "{length: 40, tied: false, shorten: row}"},
                         {"set"},
                         {"realformer"},
                         {"rela"},
                         {"rela", "{norm: plain}"},
                         {"lite"},
                         {"lite", "{kernel: 6, renorm: true}"},
                         {"scaling"}})
    for (const auto masking : maskings(of)) {
      SCOPED_TRACE(of.name + of.options + " " + std::to_string(static_cast<int>(masking)));
      expect_near(results(of, masking, at::kBFloat16, kDevice, false),
                  results(of, masking, at::kDouble, at::kCPU, false));
    }
}

// Its choice depends on roundings, so that it is compared on one device: who looks at the weights
// sees those of the formula.
TEST(KernelsCuda, ChooseTheKeysThatTheFormulaChooses) {
  for (const auto& of : {Case{"kvt", "{k: 40}"},
                         {"kvt", "{k_ratio: 0.25}"},
                         {"kvt", "{k: 40, ties: threshold}"},
                         {"kvt", "{k: 1000}"}})
    for (const auto masking : maskings(of)) {
      SCOPED_TRACE(of.options + " " + std::to_string(static_cast<int>(masking)));
      expect_near(results(of, masking, at::kBFloat16, kDevice, false),
                  results(of, masking, at::kBFloat16, kDevice, true));
    }
}

}  // namespace
}  // namespace longbow
