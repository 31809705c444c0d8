#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "longbow/attention/mechanism.h"
#include "tests/attention/laws.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 8, kHeads = 2, kHead = 4;
const Site kSite = {.shape = {.width = kWidth, .heads = kHeads, .max_length = 64},
                    .init = "xavier"};

Tensor phi(const Tensor& x, const Tensor& omega, bool mirrored) {
  const auto scaled = x / std::pow(static_cast<double>(x.size(-1)), 0.25);
  const auto u = scaled.matmul(omega.transpose(-2, -1)), half = scaled.square().sum(-1, true) / 2;
  const auto all = mirrored ? at::cat({(u - half).exp(), (-u - half).exp()}, -1) : (u - half).exp();
  return all / std::sqrt(static_cast<double>(all.size(-1)));
}

// The group of each of n numbers: its place in their order, in groups of `size`.
std::vector<int64_t> groups_of(const std::vector<double>& codes, int64_t size) {
  std::vector<int64_t> order(codes.size()), group(codes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    return codes[static_cast<size_t>(i)] < codes[static_cast<size_t>(j)];
  });
  for (size_t place = 0; place < order.size(); ++place)
    group[static_cast<size_t>(order[place])] = static_cast<int64_t>(place) / size;
  return group;
}

// [n, n] of 0 and 1 for q, k [n, D] of one head: pairs that are found in one round at least.
Tensor found(const Node& options, const Tensor& hashes, const Tensor& q, const Tensor& k) {
  const int64_t n = q.size(0), size = as_integer(*options.find("window"), "window");
  const bool angular = as_string(*options.find("support"), "support") == "angular";
  const double m = (q.square().sum(1).max() + k.square().sum(1).max()).item<double>();
  auto pairs = at::zeros({n, n}, at::kDouble);
  for (int64_t round = 0; round < hashes.size(0); ++round) {
    const auto codes = [&](const Tensor& x, bool key) {
      std::vector<double> all;
      for (int64_t i = 0; i < n; ++i) {
        const auto rest =
            at::full({1}, std::sqrt(m - x[i].square().sum().item<double>()), at::kDouble);
        const auto none = at::zeros({1}, at::kDouble);
        const auto longer = key ? at::cat({x[i], rest, none}) : at::cat({x[i], none, rest});
        const auto u = hashes[round].mv(angular ? x[i] : longer);
        all.push_back(angular ? at::cat({u, -u}).argmax().item<double>() : u[0].item<double>());
      }
      return groups_of(all, size);
    };
    const auto of_q = codes(q, false), of_k = codes(k, true);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const int64_t behind = of_q[static_cast<size_t>(i)] - of_k[static_cast<size_t>(j)];
        if (behind == 0 || (angular && behind == 1)) pairs[i][j] = 1;
      }
  }
  return pairs;
}

// M_ij pair by pair, and its rows normalised.
Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site& site, const Tensor& x,
             const Context& context) {
  const auto text = [&](const std::string& name) { return as_string(*options.find(name), name); };
  const auto omega = oracle::tensor_of(mixer, "attention.omega");
  const bool mirrored = text("map") == "hyperbolic";
  return oracle::multi_head(
      mixer, site, x, context,
      [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
        const int64_t n = q.size(2), c = as_integer(*options.find("window"), "window");
        auto support = at::zeros({q.size(0), q.size(1), n, n}, at::kDouble);
        const auto real = visible.select(2, n - 1).sum(-1);  // [B, 1], tokens
        for (int64_t b = 0; b < q.size(0); ++b)
          for (int64_t h = 0; h < q.size(1); ++h) {
            const auto length = real[b][0].item<int64_t>();
            if (text("support") != "local" && length > 0) {
              const auto tokens = [&](const Tensor& t) { return t[b][h].narrow(0, 0, length); };
              support[b][h]
                  .narrow(0, 0, length)
                  .narrow(1, 0, length)
                  .copy_(found(options, oracle::tensor_of(mixer, "attention.hashes"), tokens(q),
                               tokens(k)));
              continue;
            }
            for (int64_t i = 0; i < n && text("support") == "local"; ++i)
              for (int64_t j = std::max<int64_t>(0, i - c / 2); j < std::min(n, i + (c + 1) / 2);
                   ++j)
                support[b][h][i][j] = 1;
          }
        const auto scores =
            q.matmul(k.transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(3)));
        const auto w = phi(q, omega, mirrored).matmul(phi(k, omega, mirrored).transpose(-2, -1));
        return oracle::weighted_mean(at::where(support > 0, scores.exp(), w), v, visible);
      });
}
const bool registered = oracle::add("scatterbrain", dense);

Mixer made(const std::string& options = "", const std::string& name = "scatterbrain",
           const Site& site = kSite) {
  const auto mixer = make_mixer(name, site, options);
  mixer->to(at::kDouble);
  mixer->eval();
  return mixer;
}

Tensor run(const Mixer& mixer, const Tensor& x, const Mask& mask = {}) {
  Context context = {.mask = mask, .random = Random::from_seed(7)};
  return (*mixer)(x, context);
}

std::vector<Mask> masks(int64_t n) {
  const auto keep = Mask::from_lengths(at::tensor({n, n / 3}), n).keep;
  return {{}, {.causal = true}, {.keep = keep}, {.causal = true, .keep = keep}};
}

// The exact limit: every pair is in the support, and the features do not matter.
TEST(Scatterbrain, ASupportOfAllKeysIsSoftmax) {
  const auto x = random_normal({2, 30, kWidth}, 1);
  const auto softmax = made("", "softmax");
  for (const std::string options :
       {"{window: 61}", "{support: clusters, window: 30}", "{support: angular, window: 30}",
        "{support: clusters, window: 100, rounds: 3}", "{support: angular, window: 99, rounds: 2}"})
    for (const auto& mask : masks(30))
      EXPECT_NEAR_TENSOR(run(made(options), x, mask), run(softmax, x, mask),
                         (Tolerance{1e-9, 1e-9}))
          << options;
  EXPECT_FALSE(run(made("{window: 31}"), x).allclose(run(softmax, x)));
}

TEST(Scatterbrain, AnEmptySupportIsPerformer) {
  const auto x = random_normal({2, 30, kWidth}, 2);
  for (const std::string map : {"softmax", "hyperbolic"}) {
    const auto empty = made("{window: 0, features: 6, map: " + map + "}"),
               performer = made("{features: 6, map: " + map + "}", "performer");
    EXPECT_NEAR_TENSOR(oracle::tensor_of(*empty, "attention.omega"),
                       oracle::tensor_of(*performer, "attention.omega"), kExact);
    for (const auto& mask : masks(30))
      EXPECT_NEAR_TENSOR(run(empty, x, mask), run(performer, x, mask), tolerance(at::kDouble));
  }
}

// One head whose projections are the identity.
Mixer bare(const std::string& options, int64_t width) {
  const auto mixer =
      make_mixer("scatterbrain", {.shape = {.width = width, .heads = 1}, .bias = false}, options);
  mixer->to(at::kDouble);
  const at::NoGradGuard no_grad;
  for (auto& weight : mixer->parameters()) weight.copy_(at::eye(width));
  mixer->eval();
  return mixer;
}

// A window of four keys: two before the query, its own, and one after.
TEST(Scatterbrain, IsTheEquation) {
  constexpr int64_t kTokens = 7, kChannels = 3;
  const auto mixer = bare("{window: 4, map: softmax, features: 5}", kChannels);
  const auto x = random_normal({1, kTokens, kChannels}, 3);
  const auto omega = oracle::tensor_of(*mixer, "attention.omega")[0];
  const auto at = [](const Tensor& t, int64_t i, int64_t j) { return t[i][j].item<double>(); };
  const auto feature = [&](int64_t token, int64_t row) {
    double u = 0, norm = 0;
    for (int64_t c = 0; c < kChannels; ++c) {
      const double scaled = at(x[0], token, c) / std::pow(3.0, 0.25);
      u += at(omega, row, c) * scaled;
      norm += scaled * scaled;
    }
    return std::exp(u - norm / 2) / std::sqrt(5.0);
  };
  auto want = at::zeros({1, kTokens, kChannels}, at::kDouble);
  for (int64_t i = 0; i < kTokens; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < kTokens; ++j) {
      double score = 0, weight = 0;
      for (int64_t c = 0; c < kChannels; ++c)
        score += at(x[0], i, c) * at(x[0], j, c) / std::sqrt(3.0);
      for (int64_t r = 0; r < 5; ++r) weight += feature(i, r) * feature(j, r);
      const double m = j >= i - 2 && j <= i + 1 ? std::exp(score) : weight;
      want[0][i] += m * x[0][j];
      sum += m;
    }
    want[0][i] /= sum;
  }
  EXPECT_NEAR_TENSOR(run(mixer, x), want, tolerance(at::kDouble));
}

// Few tokens in a group: bfloat16 may sort otherwise, so only the laws of the other types.
Subject grouped(const std::string& options) {
  auto subject = subjects().front();
  for (const auto& each : subjects())
    if (each.mechanism == "scatterbrain") subject = each;
  const auto& row = find_mechanism("scatterbrain");
  const auto tree = parse_yaml(options, "options");
  subject.options = row.resolve(tree);
  subject.promises = row.promises(tree);
  return subject;
}

TEST(Scatterbrain, SmallGroupsKeepTheLawsToo) {
  for (const std::string options :
       {"{support: clusters, window: 5, rounds: 3}",
        "{support: clusters, window: 16, map: softmax}",
        "{support: angular, window: 6, rounds: 2, buckets: 6, per_head: true}"})
    for (const auto* law : {&kAnyLengthIsTaken, &kRowsOfABatchAreIndependent,
                            &kPermutedTokensGivePermutedOutputs, &kEvaluationIsDeterministic,
                            &kPaddingIsInvisible, &kAnEmptyRowIsFinite, &kTheFutureIsInvisible,
                            &kGradientsAreThoseOfDifferences, &kRecomputationGivesTheSameGradients,
                            &kEqualsItsOracle, &kASavedModuleIsTheSame, &kCostGrowsAsPromised}) {
      const auto subject = grouped(options);
      if (law->exempt(subject.promises).empty())
        EXPECT_TRUE(keeps(subject, *law)) << options << ": " << law->sentence;
    }
}

TEST(Scatterbrain, OnceTheOrderIsChosenLessPrecisionIsNearby) {
  const at::NoGradGuard no_grad;
  for (const std::string options : {"{support: clusters, window: 16, rounds: 2, features: 64}",
                                    "{support: angular, window: 16, features: 64}"}) {
    const auto built = build(grouped(options), {.max_length = 600});
    const auto x = random_normal({1, 600, 24}, 4).to(at::kBFloat16);
    cast(built, at::kBFloat16);
    cast(built, at::kDouble);
    Choices choices = {.mode = Choices::Mode::record};
    Context context = {.choices = &choices};
    const auto want = (*built.mixer)(x.to(at::kDouble), context);
    choices.mode = Choices::Mode::replay;
    cast(built, at::kBFloat16);
    const double scale = want.abs().max().item<double>();
    EXPECT_NEAR_TENSOR((*built.mixer)(x, context).to(at::kDouble), want,
                       (Tolerance{tolerance(at::kBFloat16).absolute * scale, 0}));
  }
}

// More of the pairs that matter are exact: an error that falls from no support to a window, and to
// groups of similar tokens, which beat a window of the same size when nearness means nothing.
TEST(Scatterbrain, GroupsFindWhatMatters) {
  const auto x = 1.6 * random_normal({2, 256, 8}, 5);
  const auto heads = x.unsqueeze(1);
  const auto want = oracle::softmax(heads, heads, heads, at::ones({1, 1, 256, 256}, at::kDouble));
  const auto error = [&](const std::string& options) {
    const auto mixer = bare("{features: 64, " + options + "}", 8);
    return (run(mixer, x).unsqueeze(1) - want).square().mean().item<double>();
  };
  const double none = error("window: 0"), window = error("window: 32"),
               clusters = error("window: 32, rounds: 4, support: clusters"),
               angular = error("window: 16, rounds: 4, support: angular");
  EXPECT_LT(window, none);
  EXPECT_LT(clusters, window);
  EXPECT_LT(angular, window);
}

// A dropped pair has no weight at all, neither exact nor estimated: with every key in the support
// the features have no influence, and the mean over masks is the output without dropout.
TEST(Scatterbrain, ADroppedPairHasNoWeight) {
  const auto x = random_normal({1, 12, kWidth}, 6);
  const auto mixer = made("{window: 25, dropout: 0.5, features: 4}"), plain = made("{window: 25}");
  mixer->train();
  const auto first = run(mixer, x);
  EXPECT_FALSE(first.allclose(run(plain, x)));
  const at::NoGradGuard no_grad;
  mixer->named_buffers()["attention.omega"].mul_(-0.7);
  EXPECT_NEAR_TENSOR(run(mixer, x), first, (Tolerance{1e-9, 1e-9}));
  auto mean = at::zeros_like(x);
  for (int64_t step = 0; step < 2000; ++step) {
    Context context = {.random = Random::from_seed(7, step)};
    mean += (*mixer)(x, context) / 2000;
  }
  EXPECT_NEAR_TENSOR(mean, run(plain, x), (Tolerance{0.08, 0}));
}

// Exponents in the hundreds, in float32, forward and backward; in one pass and in extensions.
TEST(Scatterbrain, ExtremeKeysStayFinite) {
  for (const std::string options : {"{window: 9}", "{support: clusters, window: 8, rounds: 2}"})
    for (const bool causal : {false, true}) {
      const auto mixer = made(options), narrow = made(options);
      narrow->to(at::kFloat);
      auto x = random_normal({1, 100, kWidth}, 8);
      x.narrow(1, 40, 5) *= 25;
      const auto single = x.to(at::kFloat).requires_grad_();
      const auto y = run(narrow, single, {.causal = causal});
      y.sum().backward();
      EXPECT_TRUE(y.isfinite().all().item<bool>()) << options;
      EXPECT_TRUE(single.grad().isfinite().all().item<bool>()) << options;
      EXPECT_TRUE(run(mixer, x, {.causal = causal}).isfinite().all().item<bool>()) << options;
    }
}

TEST(Scatterbrain, TheStateIsTheSumsAndARing) {
  const auto mixer = make_mixer("scatterbrain", kSite, "{window: 101, features: 6}");
  mixer->to(at::kBFloat16);
  State state;
  Context context;
  mixer->start(state, 3, 1000000, context);
  ASSERT_EQ(state.lane.size(), 5u);
  EXPECT_EQ(state.lane.at("sums").sizes(), at::IntArrayRef({3, kHeads, 6, kHead + 1}));
  EXPECT_EQ(state.lane.at("peak").sizes(), at::IntArrayRef({3, kHeads}));
  EXPECT_EQ(state.lane.at("keys").sizes(), at::IntArrayRef({3, kHeads, 51, 2 * kHead + 7}));
  EXPECT_EQ(state.lane.at("keys").scalar_type(), at::kFloat);
  EXPECT_EQ(state.lane.at("values").numel(), 0);
}

// An extension longer than the ring, and many short ones, against one pass.
TEST(Scatterbrain, LongExtensionsTakeTheRingInPieces) {
  const at::NoGradGuard no_grad;
  const auto x = random_normal({2, 130, kWidth}, 9);
  for (const std::string options : {"{window: 7}", "{window: 90}", "{window: 0}"}) {
    const auto mixer = made(options);
    const auto want = run(mixer, x, {.causal = true});
    for (const auto& split : {std::vector<int64_t>{130}, {3, 100, 27}}) {
      State state;
      Context context;
      mixer->start(state, 2, 130, context);
      std::vector<Tensor> pieces;
      int64_t first = 0;
      for (const int64_t count : split) {
        Context next;
        pieces.push_back(mixer->extend(x.narrow(1, first, count), state, next));
        first += count;
      }
      EXPECT_NEAR_TENSOR(at::cat(pieces, 1), want, (Tolerance{1e-9, 1e-9})) << options;
    }
  }
}

TEST(Scatterbrain, FeaturesAndHashesAreDrawnAnew) {
  const auto mixer = made("{support: angular, rounds: 2, buckets: 6, redraw: 5}");
  const auto copy = [&](const std::string& name) {
    return oracle::tensor_of(*mixer, "attention." + name).clone();
  };
  const auto omega = copy("omega"), hashes = copy("hashes");
  EXPECT_EQ(hashes.sizes(), at::IntArrayRef({2, 3, kHead}));
  EXPECT_EQ(oracle::tensor_of(*made("{support: clusters}"), "attention.hashes").sizes(),
            at::IntArrayRef({1, 1, kHead + 2}));
  EXPECT_FALSE(made()->named_buffers().contains("attention.hashes"));
  const auto step = [&](int64_t number) {
    for (const auto& module : mixer->modules())
      if (auto* part = dynamic_cast<Part*>(module.get())) part->after_step(number);
  };
  step(4);
  EXPECT_NEAR_TENSOR(copy("omega"), omega, kExact);  // evaluation
  mixer->train();
  step(4);
  EXPECT_FALSE(copy("omega").allclose(omega));
  EXPECT_FALSE(copy("hashes").allclose(hashes));
}

TEST(Scatterbrain, EachOptionGivesOtherValues) {
  const auto x = random_normal({1, 40, kWidth}, 10);
  const auto y = run(made("{window: 8}"), x);
  for (const std::string more :
       {"window: 9", "window: 8, features: 8", "window: 8, map: softmax", "window: 8, norms: fixed",
        "window: 8, per_head: true", "window: 8, support: clusters", "window: 8, support: angular"})
    EXPECT_FALSE(run(made("{" + more + "}"), x).allclose(y)) << more;
  const auto twice = run(made("{window: 8, support: clusters, rounds: 2}"), x);
  EXPECT_FALSE(twice.allclose(run(made("{window: 8, support: clusters}"), x)));
  EXPECT_FALSE(run(made("{window: 4, support: angular, buckets: 2}"), x)
                   .allclose(run(made("{window: 4, support: angular}"), x)));
}

TEST(Scatterbrain, RefusesWhatItDoesNotHave) {
  const auto message = [](const std::string& options) {
    return error_of([&] { (void)made(options); });
  };
  EXPECT_EQ(message("{support: blocks}"),
            "scatterbrain options:1: scatterbrain.support is 'blocks'; one of: local, clusters, "
            "angular");
  EXPECT_EQ(message("{map: relu}"),
            "scatterbrain options:1: scatterbrain.map is 'relu'; one of: softmax, hyperbolic");
  EXPECT_EQ(message("{window: -1}"),
            "scatterbrain options:1: scatterbrain.window is -1, out of range; it may be 0..65536");
  EXPECT_EQ(message("{rounds: 0}"),
            "scatterbrain options:1: scatterbrain.rounds is 0, out of range; it may be 1..64");
  EXPECT_EQ(message("{dropout: 1}"),
            "scatterbrain options:1: scatterbrain.dropout is 1, out of range; it may be 0..0.99");
  const auto x = random_normal({1, 3, kWidth}, 11);
  Context crossing = {.memory = x};
  EXPECT_EQ(error_of([&] {
              (*made())(x, crossing);
            }).find("scatterbrain: cannot attend to a memory; mechanisms that do: "),
            0u);
  EXPECT_EQ(error_of([&] {
              State state;
              Context context;
              made("{support: clusters}")->start(state, 1, 8, context);
            }).find("scatterbrain: has no decoding state; mechanisms that do: "),
            0u);
}

}  // namespace
}  // namespace longbow
