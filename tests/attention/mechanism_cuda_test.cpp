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
  int64_t tokens = kTokens;
};

enum class Masking { none, padded, causal };

// Values, and gradients of the tokens and of all parameters, from weights that were rounded; of a
// loss of the layer's own too.
std::vector<Tensor> results(const Case& of, Masking masking, at::ScalarType type, at::Device device,
                            bool looks, Choices* choices = nullptr) {
  const auto mixer = make_mixer(of.name, kSite, of.options);
  mixer->to(at::kBFloat16);
  mixer->to(device, type);
  mixer->train();
  const auto drawn = [&](uint64_t seed) {
    return random_normal({2, of.tokens, kWidth}, seed).to(at::kBFloat16).to(device, type);
  };
  const auto x = drawn(1).requires_grad_();
  Tensors maps;
  Context context;
  context.mask.causal = masking == Masking::causal;
  if (masking == Masking::padded)
    context.mask.keep =
        Mask::from_lengths(at::tensor({kTokens, int64_t{37}}, at::kLong), kTokens).keep.to(device);
  if (looks) context.maps = &maps;
  context.random = Random::from_seed(1, 0, device);
  context.choices = choices;
  const auto y = (*mixer)(x, context);
  std::vector<Tensor> leaves = {x};
  for (const auto& parameter : mixer->parameters()) leaves.push_back(parameter);
  std::vector<Tensor> outputs = {y}, slopes = {drawn(2)};
  if (context.loss.defined()) {
    outputs.push_back(context.loss);
    slopes.push_back(at::full_like(context.loss, kTokens));
  }
  auto found = torch::autograd::grad(outputs, leaves, slopes, {}, false, /*allow_unused=*/true);
  found.insert(found.begin(), outputs.begin(), outputs.end());
  for (auto& one : found)
    if (one.defined()) one = one.detach().cpu().to(at::kDouble);
  return found;
}

constexpr double kFew = 0.08;  // roundings of a whole layer; anything else is wrong by more

void expect_near(const std::vector<Tensor>& got, const std::vector<Tensor>& want,
                 double few = kFew) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 0;
  for (const auto& one : want)
    if (one.defined()) largest = std::max(largest, one.norm().item<double>());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].defined(), want[i].defined()) << i;
    if (!got[i].defined()) continue;
    const double size = want[i].norm().item<double>();
    // What cancels, such as the gradient of a bias before a softmax, is measured by the others.
    EXPECT_LE((got[i] - want[i]).norm().item<double>(), few * std::max(size, 1e-2 * largest)) << i;
  }
}

// In bfloat16 on a GPU, and in float64 on the CPU with the discrete choices of the former.
void expect_near_float64(const Case& of, Masking masking) {
  Choices choices = {.mode = Choices::Mode::record};
  const auto got = results(of, masking, at::kBFloat16, kDevice, false, &choices);
  choices.mode = Choices::Mode::replay;
  for (auto& [name, kept] : choices.kept) kept = kept.cpu();
  expect_near(got, results(of, masking, at::kDouble, at::kCPU, false, &choices));
}

std::vector<Masking> maskings(const Case& of) {
  const auto promises = find_mechanism(of.name).promises(
      parse_yaml(of.options.empty() ? "{}" : of.options, "options"));
  std::vector<Masking> found;
  if (promises.bidirectional) found = {Masking::none, Masking::padded};
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
                         {"aft"},
                         {"performer"},
                         {"performer", "{features: 100, per_head: true}"},
                         {"scatterbrain"},
                         {"scatterbrain", "{window: 21, map: softmax, features: 100}"},
                         {"scatterbrain", "{window: 150, per_head: true}"},
                         {"lite", "{kernel: 6, renorm: true}"},
                         {"scaling"},
                         {"s4d"},
                         {"s4d", "{start: legs, state: 12, bidirectional: false}"},
                         {"mega"},
                         {"mega", "{chunk: 64, components: 3}"},
                         {"ssd"},
                         {"ssd", "{groups: 2, state: 32, least_step: 0.02, most_step: 0.05}"},
                         {"deltanet"},
                         {"reformer"},
                         {"reformer", "{chunk: 16, rounds: 2, same_bucket: true, back: 2}"},
                         {"sparse"},
                         {"sparse", "{stride: 7, combine: layers}"},
                         {"sparse", "{pattern: fixed, stride: 12}"},
                         {"transformer_xl", "{memory: 40}"},
                         {"compressive"},
                         {"compressive", "{memory: 40, slots: 30, rate: 2, compression: mean}"},
                         {"compressive", "{memory: 30, segment: 24, rate: 3, dilation: 2}"},
                         {"compressive", "{memory: 20, slots: 300, positions: learned}"},
                         {"sinkhorn"},
                         {"sinkhorn", "{block: 16}"},
                         {"axial"},
                         {"axial", "{columns: 48, combine: sum}"},
                         {"axial", "{columns: 37}"},
                         {"fmmformer"},
                         {"fmmformer", "{band: 40, maps: [elu, tanh], blend: alpha, per: head}"},
                         {"fmmformer", "{maps: [elu_flip], blend: far}"},
                         {"h1d"},
                         {"h1d", "{block: 8, relative_bias: true}"},
                         {"transformer_ls"},
                         {"transformer_ls", "{window: 40, rank: 8, chunk: 24}"},
                         {"transformer_ls", "{dual_norm: false, convolution: 3}"},
                         {"bigbird"},
                         {"bigbird", "{block: 16}"},
                         {"routing"},
                         {"routing", "{clusters: 6, window: 40, shared: false}"},
                         {"etc"},
                         {"etc", "{radius: 20, globals: 4, clip: 0}"},
                         {"etc", "{radius: 20, globals: 8, segment: 32, share: none}"},
                         {"longformer", "{window: 40}"},
                         {"longformer", "{window: 40, global_tokens: 5}"},
                         {"longformer", "{window: 70, global_tokens: 90}"},
                         {"hyena"},
                         {"hyena", "{order: 3, bidirectional: false}"},
                         {"clustered"},
                         {"clustered", "{clusters: 9, top: 50, bits: 50, iterations: 3}"},
                         {"clustered", "{clusters: 7, top: 0}"},
                         {"s5"},
                         {"s5", "{state: 8, discretization: bilinear, activation: gelu}"}})
    for (const auto masking : maskings(of)) {
      SCOPED_TRACE(of.name + of.options + " " + std::to_string(static_cast<int>(masking)));
      expect_near_float64(of, masking);
    }
}

// Kernels for float32, whose products are as exact as LibTorch's.
TEST(KernelsCuda, AgreeInFloat32) {
  for (const auto& of : {Case{"linformer"},
                         {"linformer", "{rank: 100, dropout: 0.2}"},
                         {"linformer", "{rank: 16, scale: mass, hide_unwritten: true}"},
                         {"linformer", "{rank: 9, sharing: none, bias: true, dropout: 0.1}"},
                         {"linformer", "{rank: 200, method: mean_pool, dropout: 0.1}"},
                         {"luna", "{dropout: 0.1}"},
                         {"abc"},
                         {"set"}})
    for (const auto masking : {Masking::none, Masking::padded}) {
      SCOPED_TRACE(of.options + " " + std::to_string(static_cast<int>(masking)));
      expect_near(results(of, masking, at::kFloat, kDevice, false),
                  results(of, masking, at::kDouble, at::kCPU, false), 5e-6);
    }
}

// Of sums over all tokens, which are rounded, a window that has most of them would leave little.
TEST(KernelsCuda, KeepTheDigitsOfShortRows) {
  const Case of = {"scatterbrain", "", 20};
  expect_near(results(of, Masking::none, at::kBFloat16, kDevice, false),
              results(of, Masking::none, at::kDouble, at::kCPU, false), 0.015);
}

// Values and gradients of one long sequence, of which sums over all tokens are cut up.
std::vector<Tensor> long_results(at::ScalarType type, at::Device device) {
  constexpr int64_t kLong = 32768, kNarrow = 8;
  const auto mixer = make_mixer(
      "linformer", {.shape = {.width = kNarrow, .heads = 1, .max_length = kLong}, .init = "xavier"},
      "{rank: 4}");
  mixer->to(device, type);
  const auto x =
      random_normal({1, kLong, kNarrow}, 1).to(at::kFloat).to(device, type).requires_grad_();
  Context context;
  const auto y = (*mixer)(x, context);
  std::vector<Tensor> leaves = {x};
  for (const auto& parameter : mixer->parameters()) leaves.push_back(parameter);
  auto found = torch::autograd::grad({y}, leaves, {at::ones_like(y)}, {}, false, true);
  found.push_back(y.detach());
  for (auto& one : found)
    if (one.defined()) one = one.cpu().to(at::kDouble);
  return found;
}

TEST(KernelsCuda, AddUpLongSequences) {
  expect_near(long_results(at::kFloat, kDevice), long_results(at::kDouble, at::kCPU), 1e-5);
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

// A prefix, single tokens, and the rest.
TEST(KernelsCuda, DecodeWhatTheyReadAtOnce) {
  for (const auto& of : {Case{"ssd"},
                         {"ssd", "{groups: 2, state: 24}"},
                         {"deltanet"},
                         {"performer"},
                         {"performer", "{map: hyperbolic, features: 30, per_head: true}"},
                         {"rfa"},
                         {"linear"}}) {
    SCOPED_TRACE(of.name + of.options);
    const at::NoGradGuard none;
    const auto mixer = make_mixer(of.name, kSite, of.options);
    mixer->to(kDevice, at::kBFloat16);
    mixer->eval();
    const auto x = random_normal({2, 70, kWidth}, 1).to(kDevice, at::kBFloat16);
    Context context;
    context.mask.causal = true;
    const auto want = (*mixer)(x, context).cpu().to(at::kDouble);
    State state;
    mixer->start(state, 2, 70, context);
    std::vector<Tensor> parts;
    for (const auto& part : x.split_with_sizes({40, 1, 1, 1, 27}, 1))
      parts.push_back(mixer->extend(part, state, context));
    const auto got = at::cat(parts, 1).cpu().to(at::kDouble);
    EXPECT_LT(((got - want).norm() / want.norm()).item<double>(), 0.01);
  }
}

}  // namespace
}  // namespace longbow
