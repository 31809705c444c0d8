#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/recompute.h"
#include "longbow/tensors/meter.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 6;
const Site kSite = {.shape = {.width = kWidth, .heads = 2, .max_length = 64}, .init = "xavier"};

// 0 and 1 for one row of scores [M]: its visible keys sorted, larger scores first, then smaller
// indices.
Tensor kept(const Node& options, const Tensor& scores, const Tensor& visible) {
  const auto a = scores.accessor<double, 1>();
  const auto seen = visible.accessor<double, 1>();
  std::vector<int64_t> order;
  for (int64_t j = 0; j < a.size(0); ++j)
    if (seen[j] > 0) order.push_back(j);
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return a[i] > a[j]; });
  const double ratio = as_number(*options.find("k_ratio"), "k_ratio");
  const auto count = static_cast<int64_t>(order.size());
  const int64_t k = ratio > 0 ? static_cast<int64_t>(std::ceil(ratio * static_cast<double>(count)))
                              : as_integer(*options.find("k"), "k");
  const bool all = as_string(*options.find("ties"), "ties") == "threshold";
  auto chosen = at::zeros_like(scores);
  for (int64_t n = 0; n < count; ++n) {
    const int64_t j = order[static_cast<size_t>(n)];
    const bool tie = all && n >= k && a[j] == a[order[static_cast<size_t>(k - 1)]];
    if (n < k || tie) chosen[j] = 1;
  }
  return chosen;
}

const bool registered =
    oracle::add("kvt", [](const torch::nn::Module& mixer, const Node& options, const Site& site,
                          const Tensor& x, const Context& context) {
      return oracle::multi_head(
          mixer, site, x, context,
          [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
            const auto scores = q.matmul(k.transpose(-2, -1)).contiguous();
            const auto seen = visible.expand_as(scores).contiguous();
            auto chosen = at::zeros_like(scores);
            for (int64_t b = 0; b < q.size(0); ++b)
              for (int64_t h = 0; h < q.size(1); ++h)
                for (int64_t i = 0; i < q.size(2); ++i)
                  chosen[b][h][i] = kept(options, scores[b][h][i], seen[b][h][i]);
            return oracle::softmax(q, k, v, chosen);
          });
    });

Mixer made(const std::string& options, const std::string& name = "kvt") {
  auto mixer = make_mixer(name, kSite, options);
  mixer->to(at::kDouble);
  return mixer;
}

// A mixer whose keys are all zero, so that all scores are ties, and which gives back its values.
Mixer tied(const std::string& options) {
  const auto mixer = made(options);
  const at::NoGradGuard no_grad;
  mixer->named_parameters()["key.weight"].zero_();
  for (const auto& name : {"value.weight", "output.weight"})
    mixer->named_parameters()[name].copy_(at::eye(kWidth));
  return mixer;
}

TEST(Kvt, AsManyAsThereAreKeysIsSoftmax) {
  const auto x = random_normal({2, 30, kWidth}, 1);
  for (const bool causal : {false, true}) {
    auto mask = Mask::from_lengths(at::tensor({30, 17}, at::kLong), 30);
    mask.causal = causal;
    for (const std::string options : {"{k: 30}", "{k: 1000}", "{k: 1, k_ratio: 1}"}) {
      Context context = {.mask = mask};
      EXPECT_NEAR_TENSOR((*made(options))(x, context), (*made("", "softmax"))(x, context),
                         tolerance(at::kDouble));
    }
  }
}

TEST(Kvt, OneKeyIsTheBestOne) {
  const auto mixer = made("{k: 1}");
  const auto x = random_normal({1, 13, kWidth}, 2);
  const auto rows = [&](const std::string& name) {
    return x[0].matmul(oracle::tensor_of(*mixer, name + ".weight").t()).view({13, 2, 3});
  };
  const auto q = rows("query"), k = rows("key"), v = rows("value");
  auto best = at::zeros_like(v);
  for (int64_t i = 0; i < 13; ++i)
    for (int64_t h = 0; h < 2; ++h)
      best[i][h] = v.select(1, h)[k.select(1, h).mv(q[i][h]).argmax().item<int64_t>()];
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(x, context)[0],
                     best.view({13, kWidth}).matmul(oracle::tensor_of(*mixer, "output.weight").t()),
                     tolerance(at::kDouble));
}

TEST(Kvt, TiesGoToTheFirstKeysOrAllAreKept) {
  const auto x = random_normal({1, 9, kWidth}, 3);
  Context context;
  EXPECT_NEAR_TENSOR((*tied("{k: 4}"))(x, context), x.narrow(1, 0, 4).mean(1, true).expand_as(x),
                     tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR((*tied("{k: 4, ties: threshold}"))(x, context), x.mean(1, true).expand_as(x),
                     tolerance(at::kDouble));
}

TEST(Kvt, ARatioCountsTheVisibleKeysOfEachQuery) {
  const auto x = random_normal({1, 30, kWidth}, 4);
  Context context = {.mask = {.causal = true}};
  const auto half = (*tied("{k_ratio: 0.5}"))(x, context),
             tenth = (*tied("{k_ratio: 0.1}"))(x, context);
  for (int64_t i = 0; i < 30; ++i) {
    EXPECT_NEAR_TENSOR(half[0][i], x[0].narrow(0, 0, (i + 2) / 2).mean(0), tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(tenth[0][i], x[0].narrow(0, 0, i / 10 + 1).mean(0), tolerance(at::kDouble));
  }
}

TEST(Kvt, TheWeightsOfALookAreThoseOfKKeys) {
  Tensors maps;
  const auto x = random_normal({1, 12, kWidth}, 5);
  Context context = {.mask = {.causal = true}, .maps = &maps};
  (void)(*made("{k: 5}"))(x, context);
  const auto weights = maps.at("");
  const auto counts = at::arange(1, 13, at::kLong).clamp_max(5).expand({1, 2, 12});
  EXPECT_NEAR_TENSOR((weights > 0).sum(-1), counts, kExact);
  EXPECT_NEAR_TENSOR(weights.sum(-1), at::ones({1, 2, 12}), tolerance(at::kDouble));
}

TEST(Kvt, TheKeysThatWereNotKeptGetNoGradient) {
  const auto x = random_normal({1, 2, kWidth}, 6);
  Site site = kSite;
  site.cross = true;
  const auto crossing = make_mixer("kvt", site, "{k: 3}");
  crossing->to(at::kDouble);
  const auto memory = random_normal({1, 20, kWidth}, 7).requires_grad_();
  Context context = {.memory = memory};
  (*crossing)(x, context).sum().backward();
  const auto moved = (memory.grad()[0].abs().amax(-1) > 0).sum().item<int64_t>();
  EXPECT_GE(moved, 3);
  EXPECT_LE(moved, 3 * 2 * 2);  // three keys for each of two queries in two heads
}

// Tiles of whole rows are cut so that there are several, and the last one is short.
TEST(Kvt, ManyTilesAreTheFormulaWithItsMembers) {
  constexpr int64_t kTokens = 1100;  // of_rows: 238 rows a tile
  for (const std::string options :
       {"{k: 9}", "{k: 9, ties: threshold}", "{k_ratio: 0.01}", "{k: 40, dropout: 0.3}"})
    for (const bool causal : {false, true}) {
      const auto x = random_normal({1, kTokens, kWidth}, 8).requires_grad_();
      const auto mixer = made(options);
      const auto run = [&](Tensors* maps) {
        Context context = {
            .mask = {.causal = causal}, .random = Random::from_seed(1), .maps = maps};
        const auto y = (*mixer)(x, context);
        return std::pair{y, torch::autograd::grad({y.square().sum()}, {x})[0]};
      };
      Tensors maps;
      const auto got = run(nullptr), want = run(&maps);
      EXPECT_NEAR_TENSOR(got.first, want.first, tolerance(at::kDouble)) << options;
      EXPECT_NEAR_TENSOR(got.second, want.second, (Tolerance{1e-9, 1e-9})) << options;
    }
}

TEST(Kvt, AKeyFarBehindTheOthersChangesNothing) {
  Site site = kSite;
  site.cross = true;
  const auto mixer = make_mixer("kvt", site, "{k: 4}");
  mixer->to(at::kDouble);
  const auto x = random_normal({1, 1, kWidth}, 11), memory = random_normal({1, 9, kWidth}, 12);
  // A token whose key points away from the query of every head.
  const auto away = at::linalg_pinv(oracle::tensor_of(*mixer, "key.weight"))
                        .matmul(oracle::tensor_of(*mixer, "query.weight").matmul(x[0][0]))
                        .mul(-1e3);
  Context some = {.memory = memory},
          more = {.memory = at::cat({memory, away.view({1, 1, kWidth})}, 1)};
  EXPECT_NEAR_TENSOR((*mixer)(x, more), (*mixer)(x, some), tolerance(at::kDouble));
}

TEST(Kvt, HalfTypesChooseInFloat32) {
  const auto mixer = made("{k: 1}");
  {
    const at::NoGradGuard no_grad;
    for (auto& parameter : mixer->parameters()) parameter.zero_();
    for (const auto& name : {"query", "key", "value", "output"})
      mixer->named_parameters()[std::string(name) + ".weight"].copy_(at::eye(kWidth));
  }
  mixer->to(at::kBFloat16);
  // 128 x 128 + 1 rounds to 128 x 128 in bfloat16: the second key is the better one by that 1.
  auto x = at::zeros({1, 2, kWidth}, at::kBFloat16);
  x.select(2, 0).fill_(128);
  x[0][0][1] = 1, x[0][1][1] = 2;
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(x, context).narrow(2, 0, 2),
                     x.narrow(1, 1, 1).narrow(2, 0, 2).expand({1, 2, 2}), kExact);
}

// A loss that is not finite is reported by who trains, so it has to arrive there.
TEST(Kvt, NotANumberStaysOne) {
  auto x = random_normal({1, 20, kWidth}, 14);
  x[0][5].fill_(NAN);
  for (const std::string options : {"{k: 4}", "{k_ratio: 0.25}", "{k: 4, ties: threshold}"})
    for (const bool causal : {false, true})
      for (const bool looks : {false, true}) {
        Tensors maps;
        Context context = {.mask = {.causal = causal}, .maps = looks ? &maps : nullptr};
        Tensor y;
        EXPECT_EQ(error_of([&] { y = (*made(options))(x, context); }), "") << options;
        ASSERT_TRUE(y.defined());
        EXPECT_TRUE(y[0][5].isnan().all().item<bool>()) << options;
        if (!causal) EXPECT_TRUE(y.isnan().all().item<bool>()) << options;
      }
}

// A recorded member would be a byte for each pair, a border is eight for each query.
TEST(Kvt, RecomputationKeepsOneBorderForEachQuery) {
  const auto mixer = made("{k: 9}");
  const auto bytes = [&](int64_t tokens) {
    const auto x = random_normal({1, tokens, kWidth}, 13).requires_grad_();
    Context context;
    const Body body = [&](const Tensor& t, Context& c) { return (*mixer)(t, c); };
    const auto usage =
        measure([&] { recomputed(body, x, context, mixer->parameters()).sum().backward(); });
    return usage.peak_bytes;
  };
  EXPECT_LT(static_cast<double>(bytes(4096)), 2.2 * static_cast<double>(bytes(2048)));
}

TEST(Kvt, AFixedChoiceIsReplayed) {
  const auto mixer = made("{k: 2}");
  mixer->eval();
  const auto x = random_normal({1, 12, kWidth}, 9), other = random_normal({1, 12, kWidth}, 10);
  Choices choices = {.mode = Choices::Mode::record};
  Tensors maps;
  Context context = {.choices = &choices};
  (void)(*mixer)(x, context);
  choices.mode = Choices::Mode::replay;
  context.maps = &maps;
  (void)(*mixer)(other, context);
  EXPECT_NEAR_TENSOR(maps.at("") > 0, choices.kept.at(".members"), kExact);
}

TEST(Kvt, RefusesOptionsThatItDoesNotHave) {
  EXPECT_EQ(error_of([] { (void)made("{k: 0}"); }),
            "kvt options:1: kvt.k is 0, out of range; it may be >= 1");
  EXPECT_EQ(error_of([] { (void)made("{k_ratio: 1.5}"); }),
            "kvt options:1: kvt.k_ratio is 1.5, out of range; it may be 0..1");
  EXPECT_EQ(error_of([] { (void)made("{ties: last}"); }),
            "kvt options:1: kvt.ties is 'last'; one of: exact_k, threshold");
  EXPECT_EQ(error_of([] { (void)made("{dropout: 1}"); }),
            "kvt options:1: kvt.dropout is 1, out of range; it may be 0..0.99");
}

}  // namespace
}  // namespace longbow
