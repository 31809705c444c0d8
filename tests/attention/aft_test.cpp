#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 6, kHeads = 2, kLongest = 24;
const Site kSite = {.shape = {.width = kWidth, .heads = kHeads, .max_length = kLongest},
                    .init = "xavier"};

Tensor projected(const torch::nn::Module& mixer, const std::string& name, const Tensor& x) {
  return x.matmul(oracle::tensor_of(mixer, name + ".weight").t()) +
         oracle::tensor_of(mixer, name + ".bias");
}

// w_tj of every pair, [N, M, 1 or C].
Tensor position_bias(const torch::nn::Module& mixer, const Node& options, const Site& site,
                     int64_t n, int64_t m) {
  const auto form = as_string(*options.find("form"), "form");
  if (form == "simple") return at::zeros({n, m, 1}, at::kDouble);
  const auto window = static_cast<int64_t>(as_number(*options.find("window"), "window"));
  const bool factored = as_number(*options.find("rank"), "rank") > 0;
  const auto named = [&](const std::string& name) { return oracle::tensor_of(mixer, name); };
  const auto product = factored ? named("left").matmul(named("right").t()) : Tensor();
  if (form == "full")
    return (factored ? product : named("bias")).narrow(0, 0, n).narrow(1, 0, m).unsqueeze(-1);
  Tensor taps;
  if (form == "conv") {
    const auto raw = named("taps");
    taps = named("gain") * (raw - raw.mean(1, true)) / raw.std(1, /*unbiased=*/false, true) +
           named("shift");
  }
  auto w = at::zeros({n, m, form == "conv" ? site.shape.inner() : 1}, at::kDouble);
  for (int64_t t = 0; t < n; ++t)
    for (int64_t j = std::max<int64_t>(0, t - window + 1); j < std::min(m, t + window); ++j) {
      if (form == "conv")
        w[t][j] = taps.select(1, j - t + window - 1).repeat_interleave(site.shape.head());
      else
        w[t][j][0] =
            factored ? product[t][j] : named("bias")[t][j - t + (named("bias").size(1) - 1) / 2];
    }
  return w;
}

// sigmoid(q_t) * sum_j e^{k_j + w_tj} v_j / sum_j e^{k_j + w_tj}, every pair and channel on its
// own.
Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site& site, const Tensor& x,
             const Context& context) {
  const auto source = context.memory.defined() ? context.memory : x;
  const int64_t n = x.size(1), m = source.size(1);
  auto k = projected(mixer, "key", source);
  if (k.size(-1) < site.shape.inner()) k = k.repeat_interleave(site.shape.head(), -1);
  const auto scores = k.unsqueeze(1) + position_bias(mixer, options, site, n, m);  // [B, N, M, C]
  const auto weights = (scores - scores.amax(2, true)).exp() *
                       oracle::visible(context, x.size(0), n, m).squeeze(1).unsqueeze(-1);
  const auto sum = weights.sum(2);
  const auto mean = (weights * projected(mixer, "value", source).unsqueeze(1)).sum(2) / sum;
  const auto o = projected(mixer, "query", x).sigmoid() * at::where(sum > 0, mean, 0.0);
  return oracle::without_padding(projected(mixer, "output", o), context);
}
const bool registered = oracle::add("aft", dense);

Mixer made(const std::string& options = "", const Site& site = kSite) {
  const auto mixer = make_mixer("aft", site, options);
  mixer->to(at::kDouble);
  return mixer;
}

void set(const Mixer& mixer, const std::string& name, const Tensor& value) {
  const at::NoGradGuard no_grad;
  mixer->named_parameters()[name].copy_(value);
}

void copy_projections(const Mixer& from, const Mixer& to) {
  for (const auto& name : {"query", "key", "value", "output"})
    for (const auto& part : {".weight", ".bias"})
      set(to, std::string(name) + part, from->named_parameters()[std::string(name) + part]);
}

Tensor mixed(const Mixer& mixer, const Tensor& x, bool causal = false) {
  Context context = {.mask = {.causal = causal}};
  return (*mixer)(x, context);
}

// The equation with the weights [N, M] as a plain function of (t, j), one number at a time.
template <class W>
Tensor by_loops(const Mixer& mixer, const Tensor& x, bool causal, const W& w) {
  const int64_t n = x.size(1);
  const auto q = projected(*mixer, "query", x)[0], k = projected(*mixer, "key", x)[0],
             v = projected(*mixer, "value", x)[0];
  const auto qs = q.accessor<double, 2>(), ks = k.accessor<double, 2>(),
             vs = v.accessor<double, 2>();
  auto o = at::zeros({1, n, kWidth}, at::kDouble);
  auto out = o.accessor<double, 3>();
  for (int64_t t = 0; t < n; ++t)
    for (int64_t c = 0; c < kWidth; ++c) {
      double values = 0, sum = 0;
      for (int64_t j = 0; j < (causal ? t + 1 : n); ++j) {
        const double weight = std::exp(ks[j][c] + w(t, j));
        values += weight * vs[j][c];
        sum += weight;
      }
      out[0][t][c] = values / sum / (1 + std::exp(-qs[t][c]));
    }
  return projected(*mixer, "output", o);
}

TEST(Aft, IsTheEquation) {
  const auto x = random_normal({1, 17, kWidth}, 1);
  const auto simple = made(), full = made("{form: full}"), local = made("{form: local, window: 3}");
  const auto w = random_normal({kLongest, kLongest}, 2), band = random_normal({kLongest, 5}, 3);
  set(full, "bias", w);
  set(local, "bias", band);
  const auto ws = w.accessor<double, 2>(), bands = band.accessor<double, 2>();
  for (const bool causal : {false, true}) {
    EXPECT_NEAR_TENSOR(mixed(simple, x, causal),
                       by_loops(simple, x, causal, [](int64_t, int64_t) { return 0.0; }),
                       tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(mixed(full, x, causal),
                       by_loops(full, x, causal, [&](int64_t t, int64_t j) { return ws[t][j]; }),
                       tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(mixed(local, x, causal),
                       by_loops(local, x, causal,
                                [&](int64_t t, int64_t j) {
                                  return std::abs(t - j) < 3 ? bands[t][j - t + 2] : 0.0;
                                }),
                       tolerance(at::kDouble));
  }
}

TEST(Aft, OneKeyGivesItsGatedValue) {
  const auto x = random_normal({2, 1, kWidth}, 4);
  for (const std::string form : {"simple", "full", "local", "conv"}) {
    const auto mixer = made("{form: " + form + "}");
    EXPECT_NEAR_TENSOR(
        mixed(mixer, x),
        projected(*mixer, "output",
                  projected(*mixer, "query", x).sigmoid() * projected(*mixer, "value", x)),
        tolerance(at::kDouble));
  }
}

TEST(Aft, WithoutABiasFullIsSimple) {
  const auto x = random_normal({2, 20, kWidth}, 5);
  const auto simple = made(), full = made("{form: full}");
  copy_projections(simple, full);
  set(full, "bias", at::zeros({kLongest, kLongest}));
  for (const bool causal : {false, true})
    EXPECT_NEAR_TENSOR(mixed(full, x, causal), mixed(simple, x, causal), tolerance(at::kDouble));
}

TEST(Aft, LocalWithAWindowThatCoversTheSequenceIsFull) {
  const auto x = random_normal({2, 20, kWidth}, 6);
  const auto full = made("{form: full}"), local = made("{form: local, window: 100}");
  copy_projections(full, local);
  const auto w = random_normal({kLongest, kLongest}, 7);
  set(full, "bias", w);
  auto band = at::zeros({kLongest, 2 * kLongest - 1}, at::kDouble);
  for (int64_t t = 0; t < kLongest; ++t) band[t].narrow(0, kLongest - 1 - t, kLongest).copy_(w[t]);
  set(local, "bias", band);
  for (const bool causal : {false, true})
    EXPECT_NEAR_TENSOR(mixed(local, x, causal), mixed(full, x, causal), tolerance(at::kDouble));
}

// One key per head would need a bias per head in full, so the keys are those of channels.
TEST(Aft, ConvIsFullWithAToeplitzBias) {
  const Site one_head = {.shape = {.width = kWidth, .heads = 1, .max_length = kLongest},
                         .init = "xavier"};
  const auto conv = made("{form: conv, window: 4, head_keys: false}", one_head),
             full = made("{form: full}", one_head);
  copy_projections(conv, full);
  const auto taps = random_normal({7}, 8);
  set(conv, "taps", taps.unsqueeze(0));
  set(conv, "gain", at::full({1, 1}, 1.7));
  set(conv, "shift", at::full({1, 1}, -0.4));
  const auto tap = 1.7 * (taps - taps.mean()) / taps.std(/*unbiased=*/false) - 0.4;
  auto w = at::zeros({kLongest, kLongest}, at::kDouble);
  for (int64_t offset = -3; offset <= 3; ++offset) w.diagonal(offset).fill_(tap[offset + 3]);
  set(full, "bias", w);
  const auto x = random_normal({2, 20, kWidth}, 9);
  for (const bool causal : {false, true})
    EXPECT_NEAR_TENSOR(mixed(conv, x, causal), mixed(full, x, causal), (Tolerance{1e-7, 1e-7}));
}

TEST(Aft, ConvStartsAsSimple) {
  const auto x = random_normal({1, 20, kWidth}, 10);
  const auto simple = made(), conv = made("{form: conv, window: 4, head_keys: false}");
  copy_projections(simple, conv);
  EXPECT_NEAR_TENSOR(mixed(conv, x), mixed(simple, x), tolerance(at::kDouble));
  EXPECT_EQ(made("{form: conv}")->named_parameters()["key.weight"].size(0), kHeads);
}

TEST(Aft, AFactoredBiasIsTheProductOfItsFactors) {
  const auto x = random_normal({2, 20, kWidth}, 11);
  const auto full = made("{form: full}"), factored = made("{form: full, rank: 3}");
  copy_projections(full, factored);
  const auto left = random_normal({kLongest, 3}, 12), right = random_normal({kLongest, 3}, 13);
  set(factored, "left", left);
  set(factored, "right", right);
  set(full, "bias", left.matmul(right.t()));
  EXPECT_NEAR_TENSOR(mixed(factored, x), mixed(full, x), tolerance(at::kDouble));
  EXPECT_EQ(made("{form: local, window: 4}")->named_parameters()["bias"].sizes(),
            at::IntArrayRef({kLongest, 7}));
}

// The key of the first token and the bias of the last one are each so large that, factored apart,
// both would leave nothing of the tokens between.
TEST(Aft, KeysAndBiasesThatPullApartNeitherOverflowNorUnderflow) {
  for (const std::string form : {"full", "local, window: 24"}) {
    const auto mixer = made("{form: " + form + "}");
    for (const auto& name : {"query", "key", "value", "output"}) {
      set(mixer, std::string(name) + ".weight", at::eye(kWidth));
      set(mixer, std::string(name) + ".bias", at::zeros({kWidth}));
    }
    // Scores of the three tokens for every query: 2000 - 3000, 0 + 0, -3000 + 2000.
    auto bias = at::zeros_like(mixer->named_parameters()["bias"].detach());
    const auto put = [&](int64_t t, int64_t j, double value) {
      bias[t][form == "full" ? j : j - t + kLongest - 1] = value;
    };
    for (int64_t t = 0; t < 3; ++t) {
      put(t, 0, -3000);
      put(t, 2, 2000);
    }
    set(mixer, "bias", bias);
    const auto key = at::tensor({2000.0, 0.5, -3000.0}, at::kDouble);
    const auto x = key.view({1, 3, 1}).expand({1, 3, kWidth}).contiguous();
    const auto middle = at::full({1, 3, kWidth}, 0.5, at::kDouble);
    EXPECT_NEAR_TENSOR(mixed(mixer, x), x.sigmoid() * middle, tolerance(at::kDouble));
    mixer->to(at::kFloat);
    EXPECT_NEAR_TENSOR(mixed(mixer, x.to(at::kFloat)), (x.sigmoid() * middle).to(at::kFloat),
                       tolerance(at::kFloat));
  }
}

TEST(Aft, ALargeKeyThatComesLateLeavesEarlierPrefixesAlone) {
  const auto mixer = make_mixer("aft", kSite);
  const auto x = random_normal({1, 20, kWidth}, 14).to(at::kFloat);
  auto loud = x.clone();
  loud.narrow(1, 15, 5).mul_(1e4);
  const auto y = mixed(mixer, loud, true);
  EXPECT_NEAR_TENSOR(y.narrow(1, 0, 15), mixed(mixer, x, true).narrow(1, 0, 15), kExact);
  EXPECT_TRUE(y.isfinite().all().item<bool>());
}

TEST(Aft, TheStateOfTheSimpleFormIsThreeNumbersPerChannel) {
  const auto mixer = make_mixer("aft", kSite);
  mixer->to(at::kBFloat16);
  State state;
  Context context;
  mixer->start(state, 2, kLongest, context);
  ASSERT_EQ(state.lane.size(), 3u);
  for (const auto& [name, tensor] : state.lane) {
    EXPECT_EQ(tensor.sizes(), at::IntArrayRef({2, 1, 1, kWidth})) << name;
    EXPECT_EQ(tensor.scalar_type(), at::kFloat) << name;
  }
}

TEST(Aft, FormsPromiseDifferentThings) {
  const auto& row = find_mechanism("aft");
  const auto promised = [&](const std::string& form) {
    return row.promises(parse_yaml("{form: " + form + "}", "options"));
  };
  EXPECT_EQ(promised("simple").time, 1);
  EXPECT_EQ(promised("full").time, 2);
  EXPECT_EQ(promised("full").memory, 2);
  EXPECT_EQ(promised("local").memory, 1);
  EXPECT_TRUE(promised("simple").cross);
  EXPECT_FALSE(promised("conv").cross);
  EXPECT_TRUE(promised("conv").positional);
}

TEST(Aft, MaxLengthIsItsOwnOrTheModels) {
  const auto x = random_normal({1, 25, kWidth}, 15);
  for (const std::string form : {"full", "local"}) {
    EXPECT_EQ(error_of([&] { mixed(made("{form: " + form + "}"), x); }),
              "aft: 25 tokens, but max_length is 24");
    EXPECT_EQ(mixed(made("{max_length: 30, form: " + form + "}"), x).size(1), 25);
    State state;
    Context context;
    EXPECT_EQ(error_of([&] { made("{form: " + form + "}")->start(state, 1, 25, context); }),
              "aft: 25 tokens, but max_length is 24");
  }
  for (const std::string form : {"simple", "conv"})
    EXPECT_EQ(mixed(made("{form: " + form + "}"), x).size(1), 25);
}

TEST(Aft, InnerWidthIsThatOfQueriesKeysAndValues) {
  const auto x = random_normal({1, 9, kWidth}, 18);
  for (const std::string form : {"simple", "full", "local", "conv, head_keys: false"}) {
    const auto mixer = made("{inner_width: 10, form: " + form + "}");
    for (const std::string name : {"query", "key", "value"})
      EXPECT_EQ(mixer->named_parameters()[name + ".weight"].sizes(), at::IntArrayRef({10, kWidth}));
    EXPECT_EQ(mixed(mixer, x).sizes(), x.sizes());
  }
}

// The window, and the sums of what has left it: nothing grows with the capacity.
TEST(Aft, TheStateOfAWindowIsItsTokensAndThreeNumbersPerChannel) {
  for (const std::string form : {"local", "conv"}) {
    const auto mixer = made("{window: 4, form: " + form + "}");
    const int64_t groups = form == "conv" ? kHeads : 1, width = kWidth / groups;
    State state;
    Context context;
    mixer->start(state, 2, kLongest, context);
    ASSERT_EQ(state.lane.size(), 5u);
    EXPECT_EQ(state.lane.at("near_values").sizes(), at::IntArrayRef({2, groups, 3, width}));
    EXPECT_EQ(state.lane.at("near_keys").size(3), form == "conv" ? 1 : width);
    EXPECT_EQ(state.lane.at("values").sizes(), at::IntArrayRef({2, groups, 1, width}));
  }
}

TEST(Aft, RefusesWhatItCannotDo) {
  Site bare = kSite;
  bare.shape.max_length = 0;
  EXPECT_EQ(error_of([&] { (void)made("{form: full}", bare); }),
            "aft: needs max_length, here or in the model");
  EXPECT_EQ(error_of([] { (void)made("{form: half}"); }),
            "aft options:1: aft.form is 'half'; one of: simple, full, local, conv");
  EXPECT_EQ(error_of([] { (void)made("{window: 0}"); }),
            "aft options:1: aft.window is 0, out of range; it may be 1..65536");
  Context crossing = {.memory = random_normal({1, 3, kWidth}, 16)};
  EXPECT_EQ(error_of([&] {
              (*made("{form: full}"))(random_normal({1, 3, kWidth}, 17), crossing);
            }).find("aft: cannot attend to a memory; mechanisms that do: "),
            0u);
}

}  // namespace
}  // namespace longbow
