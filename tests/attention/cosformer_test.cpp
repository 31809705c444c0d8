#include <ATen/ATen.h>

#include <numbers>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 6, kHeads = 2, kLongest = 40;
const Site kSite = {.shape = {.width = kWidth, .heads = kHeads, .max_length = kLongest},
                    .init = "xavier"};

// [B, 1, 1, 1]: real tokens of each row.
Tensor real_tokens(const Tensor& keep, int64_t batch, int64_t tokens) {
  return keep.defined() ? keep.sum(1).to(at::kDouble).view({batch, 1, 1, 1})
                        : at::full({batch, 1, 1, 1}, tokens, at::kDouble);
}

// cos(pi (i / M - j / M') / 2), [B, 1, N, M], or one where a memory is read by content. M' is M
// unless a memory is read by proportions.
Tensor nearness(const Node& options, const Site& site, const Context& context, int64_t batch,
                int64_t queries, int64_t keys) {
  const bool crossing = context.memory.defined();
  const auto memory = as_string(*options.find("memory"), "memory");
  if (crossing && memory == "content") return at::ones({batch, 1, queries, keys}, at::kDouble);
  const double own = as_number(*options.find("max_length"), "max_length");
  auto of_queries = at::full(
      {batch, 1, 1, 1}, own > 0 ? own : static_cast<double>(site.shape.max_length), at::kDouble);
  auto of_keys = of_queries;
  if (as_string(*options.find("length"), "length") == "current") {
    of_queries = real_tokens(context.mask.keep, batch, keys);
    if (crossing)
      of_queries = at::maximum(of_queries, real_tokens(context.mask.query_keep, batch, queries));
    of_keys = of_queries;
  } else if (crossing && memory == "proportions") {
    of_keys = at::full_like(of_keys, static_cast<double>(site.shape.source_length()));
  }
  const auto i = at::arange(queries, at::kDouble).unsqueeze(1), j = at::arange(keys, at::kDouble);
  return (std::numbers::pi / 2 * (i / of_queries - j / of_keys)).cos();
}

// The weights as the paper writes them, every pair on its own.
Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site& site, const Tensor& x,
             const Context& context) {
  const bool relu = as_string(*options.find("map"), "map") == "relu";
  const double epsilon = as_number(*options.find("epsilon"), "epsilon");
  const auto map = [&](const Tensor& y) {
    return relu ? y.clamp_min(0) : at::where(y > 0, y + 1, y.exp());
  };
  return oracle::multi_head(
      mixer, site, x, context,
      [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
        const auto weights = map(q).matmul(map(k).transpose(-2, -1)) * visible *
                             nearness(options, site, context, q.size(0), q.size(2), k.size(2));
        return weights.matmul(v) / weights.sum(-1, true).clamp_min(epsilon);
      });
}
const bool registered = oracle::add("cosformer", dense);

Mixer made(const std::string& options = "", const Site& site = kSite) {
  const auto mixer = make_mixer("cosformer", site, options);
  mixer->to(at::kDouble);
  return mixer;
}

Tensor projected(const Mixer& mixer, const std::string& name, const Tensor& x) {
  return x.matmul(oracle::tensor_of(*mixer, name + ".weight").t());
}

// o_i = sum_j w_ij v_j / max(sum_j w_ij, 1e-6), one number at a time.
Tensor by_loops(const Mixer& mixer, const Tensor& x, double longest, bool causal) {
  const int64_t n = x.size(1), d = kWidth / kHeads;
  const auto q = projected(mixer, "query", x)[0], k = projected(mixer, "key", x)[0],
             v = projected(mixer, "value", x)[0];
  const auto qs = q.accessor<double, 2>(), ks = k.accessor<double, 2>(),
             vs = v.accessor<double, 2>();
  auto o = at::zeros({n, kWidth}, at::kDouble);
  auto out = o.accessor<double, 2>();
  for (int64_t first = 0; first < kWidth; first += d)
    for (int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < (causal ? i + 1 : n); ++j) {
        double product = 0;
        for (int64_t c = first; c < first + d; ++c)
          product += std::max(qs[i][c], 0.0) * std::max(ks[j][c], 0.0);
        const double weight =
            product * std::cos(std::numbers::pi * static_cast<double>(i - j) / (2 * longest));
        for (int64_t c = first; c < first + d; ++c) out[i][c] += weight * vs[j][c];
        sum += weight;
      }
      for (int64_t c = first; c < first + d; ++c) out[i][c] /= std::max(sum, 1e-6);
    }
  return projected(mixer, "output", o.unsqueeze(0));
}

TEST(Cosformer, IsTheEquation) {
  const auto mixer = made();
  const auto x = random_normal({1, 23, kWidth}, 1);
  for (const bool causal : {false, true}) {
    Context context = {.mask = {.causal = causal}};
    EXPECT_NEAR_TENSOR((*mixer)(x, context), by_loops(mixer, x, kLongest, causal),
                       tolerance(at::kDouble));
  }
}

TEST(Cosformer, OneKeyGivesItsValue) {
  const auto mixer = made("{map: elu}");
  const auto x = random_normal({2, 1, kWidth}, 2);
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(x, context), projected(mixer, "output", projected(mixer, "value", x)),
                     tolerance(at::kDouble));
}

TEST(Cosformer, WithAnEndlessLengthItIsLinearAttention) {
  const auto x = random_normal({2, 30, kWidth}, 3);
  for (const bool causal : {false, true})
    for (const std::string map : {"relu", "elu"}) {
      const auto mixer = made("{max_length: 1000000000, map: " + map + "}");
      const auto linear = make_mixer("linear", kSite, "{epsilon: 1e-300, map: " + map + "}");
      linear->to(at::kDouble);
      {
        const at::NoGradGuard no_grad;
        for (const auto& entry : mixer->named_parameters())
          linear->named_parameters()[entry.key()].copy_(entry.value());
      }
      Context context = {.mask = {.causal = causal}};
      EXPECT_NEAR_TENSOR((*mixer)(x, context), (*linear)(x, context), (Tolerance{1e-9, 1e-9}));
    }
}

TEST(Cosformer, APrefixDoesNotKnowHowLongTheSequenceIs) {
  const auto x = random_normal({1, 30, kWidth}, 4);
  const auto mixer = made();
  Context causal = {.mask = {.causal = true}};
  EXPECT_NEAR_TENSOR((*mixer)(x.narrow(1, 0, 11), causal), (*mixer)(x, causal).narrow(1, 0, 11),
                     tolerance(at::kDouble));
}

TEST(Cosformer, TheCurrentLengthIsTheNumberOfRealTokens) {
  const auto mixer = made("{length: current}");
  const auto x = random_normal({1, 17, kWidth}, 5);
  Context context, padded = {.mask = Mask::from_lengths(at::tensor({17}), 25)};
  EXPECT_NEAR_TENSOR((*mixer)(x, context), by_loops(mixer, x, 17, false), tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR((*mixer)(at::constant_pad_nd(x, {0, 0, 0, 8}, 3), padded).narrow(1, 0, 17),
                     by_loops(mixer, x, 17, false), tolerance(at::kDouble));
}

TEST(Cosformer, TheCurrentLengthNeedsNoLongest) {
  Site bare = kSite;
  bare.shape.max_length = 0;
  Context context;
  EXPECT_EQ((*made("{length: current}", bare))(random_normal({1, 300, kWidth}, 6), context).size(1),
            300);
}

// Where the keys of a memory stand matters only when the option says so.
TEST(Cosformer, AMemoryIsReadByContentOrByPositions) {
  Site site = kSite;
  site.cross = true;
  const auto x = random_normal({1, 9, kWidth}, 7), memory = random_normal({1, 21, kWidth}, 8);
  const auto moved = [&](const std::string& options) {
    const auto mixer = made(options, site);
    Context context = {.memory = memory}, turned = {.memory = memory.flip(1)};
    return ((*mixer)(x, context) - (*mixer)(x, turned)).abs().max().item<double>();
  };
  EXPECT_LT(moved(""), 1e-12);
  EXPECT_GT(moved("{memory: positions}"), 1e-3);
}

// Half way through 20 tokens is half way through 40 keys.
TEST(Cosformer, ProportionsPutBothSequencesOnOneScale) {
  Site site = {.shape = {.width = 1, .heads = 1, .max_length = 20, .memory_length = 40},
               .init = "xavier",
               .cross = true};
  const auto mixer = made("{memory: proportions}", site);
  {
    const at::NoGradGuard no_grad;
    for (const std::string name : {"query", "key", "value", "output"}) {
      mixer->named_parameters()[name + ".weight"].fill_(name == "key" ? 0 : 1);
      mixer->named_parameters()[name + ".bias"].fill_(name == "key" ? 1 : 0);
    }
  }
  // All keys alike, the value of key 20 alone is one: its share is cos(0) of the sum.
  auto memory = at::zeros({1, 40, 1}, at::kDouble);
  memory[0][20][0] = 1;
  Context context = {.memory = memory};
  const auto angles = std::numbers::pi / 2 * (0.5 - at::arange(40, at::kDouble) / 40);
  EXPECT_NEAR_TENSOR((*mixer)(at::ones({1, 20, 1}, at::kDouble), context)[0][10][0],
                     angles.cos().sum().reciprocal(), tolerance(at::kDouble));
}

TEST(Cosformer, AQueryWithoutFeaturesReadsNothing) {
  const auto mixer = made();
  {
    const at::NoGradGuard no_grad;
    mixer->named_parameters()["query.bias"].fill_(-1e3);
    mixer->named_parameters()["output.bias"].fill_(0.25);
  }
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(random_normal({1, 5, kWidth}, 9), context),
                     at::full({1, 5, kWidth}, 0.25), kExact);
}

// Denominators below epsilon do not grow: the output falls with the weights.
TEST(Cosformer, EpsilonIsTheSmallestDenominator) {
  const auto x = random_normal({1, 8, kWidth}, 10);
  Context context;
  const auto once = (*made("{epsilon: 1e6}"))(x, context);
  EXPECT_NEAR_TENSOR((*made("{epsilon: 2e6}"))(x, context) * 2, once, tolerance(at::kDouble));
  EXPECT_GT(once.abs().max().item<double>(), 0);
}

TEST(Cosformer, DropoutIsOnWhatIsRead) {
  const auto x = random_normal({1, kLongest, kWidth}, 13);
  const auto mixer = made("{dropout: 0.5}"), plain = made();
  {
    const at::NoGradGuard no_grad;
    for (const auto& made : {mixer, plain})
      made->named_parameters()["output.weight"].copy_(at::eye(kWidth));
  }
  const auto run = [&] {
    Context context = {.random = Random::from_seed(1)};
    return (*mixer)(x, context);
  };
  Context context;
  const auto want = (*plain)(x, context), y = run();
  EXPECT_TRUE(y.equal(run()));
  const auto kept = y.ne(0);
  EXPECT_NEAR_TENSOR(y, want * 2 * kept, tolerance(at::kDouble));
  const double share = kept.to(at::kDouble).mean().item<double>();
  EXPECT_GT(share, 0.35);
  EXPECT_LT(share, 0.65);
  mixer->eval();
  EXPECT_NEAR_TENSOR(run(), want, kExact);
}

TEST(Cosformer, TheStateIsOneSumPerHeadWhateverTheLength) {
  const auto mixer = make_mixer("cosformer", kSite);
  mixer->to(at::kBFloat16);
  State state;
  Context context;
  mixer->start(state, 2, kLongest, context);
  ASSERT_EQ(state.lane.size(), 1u);
  EXPECT_EQ(state.lane.at("sums").sizes(), at::IntArrayRef({2, 2, 6, 4}));
  EXPECT_EQ(state.lane.at("sums").scalar_type(), at::kFloat);
}

TEST(Cosformer, MaxLengthIsItsOwnOrTheModels) {
  Context context;
  const auto x = random_normal({1, 41, kWidth}, 11);
  EXPECT_EQ(error_of([&] { (*made())(x, context); }), "cosformer: 41 tokens, but max_length is 40");
  EXPECT_EQ((*made("{max_length: 41}"))(x, context).size(1), 41);
  State state;
  EXPECT_EQ(error_of([&] { made()->start(state, 1, 41, context); }),
            "cosformer: 41 tokens, but max_length is 40");
  Site longer = kSite;
  longer.cross = true;
  longer.shape.memory_length = 41;
  Context crossing = {.memory = x};
  for (const std::string memory : {"positions", "proportions"})
    EXPECT_EQ((*made("{memory: " + memory + "}", longer))(x.narrow(1, 0, 3), crossing).size(1), 3);
  longer.shape.memory_length = 7;
  EXPECT_EQ(
      error_of([&] { (*made("{memory: proportions}", longer))(x.narrow(1, 0, 3), crossing); }),
      "cosformer: 41 tokens, but max_length is 7");
}

TEST(Cosformer, RefusesWhatItCannotDo) {
  Site bare = kSite;
  bare.shape.max_length = 0;
  EXPECT_EQ(error_of([&] { (void)made("", bare); }),
            "cosformer: needs max_length, here or in the model");
  EXPECT_EQ(error_of([] { (void)made("{map: softmax}"); }),
            "cosformer options:1: cosformer.map is 'softmax'; one of: relu, elu");
  EXPECT_EQ(error_of([] { (void)made("{max_length: -1}"); }),
            "cosformer options:1: cosformer.max_length is -1, out of range; it may be >= 0");
  EXPECT_EQ(error_of([] { (void)made("{epsilon: 0}"); }),
            "cosformer options:1: cosformer.epsilon is 0, out of range; it may be > 0");
  EXPECT_EQ(error_of([] { (void)made("{length: longest}"); }),
            "cosformer options:1: cosformer.length is 'longest'; one of: fixed, current");
  EXPECT_EQ(
      error_of([] { (void)made("{memory: none}"); }),
      "cosformer options:1: cosformer.memory is 'none'; one of: content, positions, proportions");
  Context causal = {.mask = {.causal = true}};
  EXPECT_EQ(error_of([&] {
              (*made("{length: current}"))(random_normal({1, 3, kWidth}, 12), causal);
            }).find("cosformer: is not causal; mechanisms that do: "),
            0u);
  State state;
  Context context;
  EXPECT_EQ(error_of([&] {
              made("{length: current}")->start(state, 1, 3, context);
            }).find("cosformer: has no decoding state; mechanisms that do: "),
            0u);
}

}  // namespace
}  // namespace longbow
