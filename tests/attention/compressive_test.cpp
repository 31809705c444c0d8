#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/relative.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 6, kTokens = 29;
const Site kSite = {.shape = {.width = kWidth, .heads = 2, .max_length = 64}, .init = "xavier"};

int64_t floor_div(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

// The layer token by token, with a list of the slots that exist by then.
struct Definition {
  const torch::nn::Module& mixer;
  const Node& options;
  const Site& site;
  const Tensor& x;  // [B, N, C]
  Tensor q, k, v;   // [B, H, N, D]

  int64_t integer(const char* key) const { return as_integer(*options.find(key), key); }
  int64_t slots() const { return integer("slots"); }
  int64_t rate() const { return slots() > 0 ? integer("rate") : 1; }
  std::string compression() const { return as_string(*options.find("compression"), "compression"); }

  // How many groups have left the memory before query i.
  int64_t left(int64_t i) const {
    const int64_t segment = integer("segment"), memory = integer("memory");
    const int64_t begin = segment > 0 ? i / segment * segment - memory : i - memory + 1;
    return std::max<int64_t>(floor_div(begin, rate()), 0);
  }

  Tensor projected(const Tensor& row, const std::string& name) const {  // [B, C] -> [B, H, D]
    return (row.matmul(oracle::tensor_of(mixer, name + ".weight").t()) +
            oracle::tensor_of(mixer, name + ".bias"))
        .unflatten(-1, {site.shape.heads, -1});
  }

  // f of the rows of group g, [B, C]; `usage` [B, N] is what queries before it was compressed paid.
  Tensor slot(int64_t g, const Tensor& usage) const {
    const auto rows = x.narrow(1, g * rate(), rate());
    if (compression() == "mean") return rows.mean(1);
    if (compression() == "max") return std::get<0>(rows.max(1));
    if (compression() == "conv") {
      const auto w = oracle::tensor_of(mixer, "compressor.convolution.weight")
                         .unflatten(1, {rate(), -1});  // [C, rate, C]
      auto y = oracle::tensor_of(mixer, "compressor.convolution.bias").expand({x.size(0), -1});
      for (int64_t tap = 0; tap < rate(); ++tap) {
        const int64_t t = (g + 1) * rate() - 1 - (rate() - 1 - tap) * integer("dilation");
        if (t >= 0) y = y + x.select(1, t).matmul(w.select(1, tap).t());
      }
      return y;
    }
    const auto best = usage.narrow(1, g * rate(), rate()).argmax(1);  // [B]
    return rows.gather(1, best.view({-1, 1, 1}).expand({-1, 1, x.size(2)})).squeeze(1);
  }

  Tensor scores(int64_t i, const Tensor& keys, const Tensor& distances) const {
    const auto query = q.select(2, i);
    if (as_string(*options.find("positions"), "positions") == "sinusoids")
      return oracle::relative_scores(mixer, options, site, query, keys, distances);
    const auto bias = [&](const std::string& name) {
      return site.shared ? oracle::tensor_of(*site.shared, "relative_" + name)
                         : oracle::tensor_of(mixer, "relative." + name);
    };
    const auto rows = oracle::tensor_of(mixer, "relative.table").index_select(1, distances);
    return (((query + bias("u")).unsqueeze(2) * keys).sum(-1) +
            ((query + bias("v")).unsqueeze(2) * rows).sum(-1)) /
           std::sqrt(static_cast<double>(query.size(-1)));
  }

  Tensor operator()() const {
    auto y = at::zeros_like(q), usage = at::zeros({x.size(0), x.size(1)}, at::kDouble);
    std::vector<Tensor> keys, values;  // of the slots so far, [B, H, 1, D]
    for (int64_t i = 0; i < x.size(1); ++i) {
      const int64_t groups = slots() > 0 ? left(i) : 0;
      for (auto g = static_cast<int64_t>(keys.size()); g < groups; ++g) {
        const auto row = slot(g, usage);
        keys.push_back(projected(row, "key").unsqueeze(2));
        values.push_back(projected(row, "value").unsqueeze(2));
      }
      const int64_t oldest = left(i) * rate(), count = i - oldest + 1;
      auto all_keys = k.narrow(2, oldest, count), all_values = v.narrow(2, oldest, count);
      const auto raw =
          scores(i, all_keys, i - at::arange(oldest, i + 1, at::kLong)).softmax(-1).mean(1);
      usage.narrow(1, oldest, count).add_(raw);
      std::vector<int64_t> distances;
      for (int64_t j = oldest; j <= i; ++j) distances.push_back(i - j);
      for (int64_t g = std::max<int64_t>(groups - slots(), 0); g < groups; ++g) {
        all_keys = at::cat({all_keys, keys[static_cast<size_t>(g)]}, 2);
        all_values = at::cat({all_values, values[static_cast<size_t>(g)]}, 2);
        distances.push_back(i - oldest + groups - g);
      }
      const auto weights = scores(i, all_keys, at::tensor(distances, at::kLong)).softmax(-1);
      y.select(2, i).copy_((weights.unsqueeze(-1) * all_values).sum(2));
    }
    return y;
  }
};

const bool registered = oracle::add("compressive", [](const torch::nn::Module& mixer,
                                                      const Node& options, const Site& site,
                                                      const Tensor& x, const Context& context) {
  return oracle::multi_head(mixer, site, x, context,
                            [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&) {
                              return Definition{mixer, options, site, x, q, k, v}();
                            });
});

Mixer made(const std::string& name, const std::string& options) {
  auto mixer = make_mixer(name, kSite, options);
  mixer->to(at::kDouble);
  mixer->eval();
  return mixer;
}

Tensor causal(const Mixer& mixer, const Tensor& x) {
  Context context = {.mask = {.causal = true}};
  return (*mixer)(x, context);
}

TEST(Compressive, WithoutSlotsItIsTransformerXl) {
  const auto x = random_normal({2, kTokens, kWidth}, 1);
  EXPECT_NEAR_TENSOR(causal(made("compressive", "{memory: 5, slots: 0}"), x),
                     causal(made("transformer_xl", "{memory: 5}"), x), tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(causal(made("compressive", "{memory: 5, segment: 6, slots: 0}"), x),
                     causal(made("transformer_xl", "{memory: 5, segment: 6}"), x),
                     tolerance(at::kDouble));
}

TEST(Compressive, OneRowToASlotIsALongerMemory) {
  const auto x = random_normal({2, kTokens, kWidth}, 2);
  for (const auto* how : {"mean", "max", "most_used"}) {
    const auto options = std::string("rate: 1, compression: ") + how + "}";
    EXPECT_NEAR_TENSOR(causal(made("compressive", "{memory: 5, slots: 6, " + options), x),
                       causal(made("transformer_xl", "{memory: 11}"), x), tolerance(at::kDouble))
        << how;
    EXPECT_NEAR_TENSOR(
        causal(made("compressive", "{memory: 5, segment: 4, slots: 6, " + options), x),
        causal(made("transformer_xl", "{memory: 11, segment: 4}"), x), tolerance(at::kDouble))
        << how;
  }
}

struct Trained {
  Tensor loss;
  Mixer mixer;
};
Trained trained(const std::string& options, const Tensor& x, Tensors* maps = nullptr) {
  Trained result = {{}, made("compressive", options)};
  result.mixer->train();
  Context context = {.mask = {.causal = true}, .maps = maps};
  (*result.mixer)(x, context);
  result.loss = context.loss;
  return result;
}

TEST(Compressive, TheConvolutionStartsAsTheMean) {
  const auto x = random_normal({2, kTokens, kWidth}, 8);
  EXPECT_NEAR_TENSOR(
      causal(made("compressive", "{memory: 5, slots: 4, rate: 4}"), x),
      causal(made("compressive", "{memory: 5, slots: 4, rate: 4, compression: mean}"), x),
      tolerance(at::kDouble));
}

// The laws see that start, in which the order of the taps does not matter.
TEST(Compressive, TheTapsOfTheConvolutionHaveAnOrder) {
  const auto x = random_normal({2, kTokens, kWidth}, 9);
  for (const auto* text :
       {"{memory: 5, slots: 4, rate: 3}", "{memory: 5, slots: 4, rate: 3, dilation: 2}"}) {
    const auto mixer = made("compressive", text);
    const auto parameters = mixer->named_parameters();
    at::NoGradGuard no_grad;
    for (const auto* name : {"compressor.convolution.weight", "compressor.convolution.bias"})
      Tensor(parameters[name]).copy_(random_normal(parameters[name].sizes(), 10));
    const auto options = find_mechanism("compressive").resolve(parse_yaml(text, "options"));
    const auto want =
        (*oracle::find("compressive"))(*mixer, options, kSite, x, {.mask = {.causal = true}});
    EXPECT_NEAR_TENSOR(causal(mixer, x), want, tolerance(at::kDouble)) << text;
  }
}

TEST(Compressive, OnlyTheCompressorLearnsFromTheReconstruction) {
  const auto x = random_normal({2, kTokens, kWidth}, 3).requires_grad_();
  for (const auto* options : {"{memory: 4, slots: 3, rate: 2}", "{memory: 64, slots: 3, rate: 2}",
                              "{memory: 4, segment: 8, slots: 3, rate: 4, dilation: 2}"}) {
    const auto [loss, mixer] = trained(options, x);
    ASSERT_TRUE(loss.defined());
    if (std::string(options).find("64") != std::string::npos) {
      EXPECT_EQ(loss.item<double>(), 0) << "nothing has left";
      continue;
    }
    EXPECT_GT(loss.item<double>(), 0) << options;
    loss.backward();
    EXPECT_FALSE(x.grad().defined());
    for (const auto& item : mixer->named_parameters())
      EXPECT_EQ(item.value().grad().defined() && item.value().grad().abs().sum().item<double>() > 0,
                item.key().rfind("compressor.", 0) == 0)
          << item.key();
  }
}

// Rows that are equal within their groups are read like their mean, which the convolution starts
// as.
TEST(Compressive, NothingIsLostOfRowsThatAreEqual) {
  const auto x = random_normal({2, 40, kWidth}, 4).repeat_interleave(3, 1);
  const auto mixer = made("compressive", "{memory: 6, slots: 4, rate: 3}");
  mixer->train();
  Context context = {.mask = {.causal = true}};
  (*mixer)(x, context);
  EXPECT_NEAR(context.loss.item<double>(), 0, 1e-12);
  const auto other = random_normal({2, 120, kWidth}, 5);
  Context differing = {.mask = {.causal = true}};
  (*mixer)(other, differing);
  EXPECT_GT(differing.loss.item<double>(), 1e-4);
}

// The loss by its definition, one tile of queries against the groups that leave in it. Who looks at
// the weights has it from tiles.
TEST(Compressive, TheReconstructionIsTheMeanSquareOfTheDifference) {
  const auto x = random_normal({1, 12, kWidth}, 6);
  const auto e = x.narrow(1, 0, 8);  // c_12 = 9 div 2 = 4 groups
  Tensors maps;
  for (const int64_t dilation : {1, 2})
    for (Tensors* looks : {static_cast<Tensors*>(nullptr), &maps}) {
      const auto run = trained("{memory: 4, slots: 3, rate: 2, reconstruction: 0.5, dilation: " +
                                   std::to_string(dilation) + "}",
                               x, looks);
      const auto of = [&](const std::string& name) { return oracle::tensor_of(*run.mixer, name); };
      const auto project = [&](const Tensor& t, const std::string& name) {
        return split_heads(t.matmul(of(name + ".weight").t()) + of(name + ".bias"), 2);
      };
      const auto behind = at::constant_pad_nd(e, {0, 0, dilation - 1, 0}).narrow(1, 0, 8);
      const auto taps = at::cat({behind.slice(1, 0, 8, 2), e.slice(1, 1, 8, 2)}, 2);
      const auto c =
          taps.matmul(of("compressor.convolution.weight").t()) + of("compressor.convolution.bias");
      const auto read = [&](const Tensor& rows) {
        return oracle::softmax(project(x, "query"), project(rows, "key"), project(rows, "value"),
                               at::ones({1, 1, 12, rows.size(1)}, at::kDouble));
      };
      EXPECT_NEAR(run.loss.item<double>(), 0.5 * (read(e) - read(c)).square().mean().item<double>(),
                  1e-12)
          << dilation << " " << (looks != nullptr);
    }
}

// Of sequences of 40, 23 and 3 tokens, with anything behind them; nothing has left the last.
TEST(Compressive, TheReconstructionDoesNotCountPadding) {
  const int64_t lengths[] = {40, 23, 3};
  for (const std::string options :
       {"{memory: 5, slots: 3, rate: 2}", "{memory: 33, slots: 3, rate: 3, dilation: 2}",
        "{memory: 8, segment: 4, slots: 3, rate: 4}"})
    for (const bool looks : {false, true}) {
      const auto loss_of = [&](int64_t longest, uint64_t seed) {
        auto x = random_normal({3, longest, kWidth}, seed);
        auto keep = at::zeros({3, longest}, at::kBool);
        for (int64_t b = 0; b < 3; ++b) {
          x[b].narrow(0, 0, lengths[b]).copy_(random_normal({lengths[b], kWidth}, 77));
          keep[b].narrow(0, 0, lengths[b]).fill_(true);
        }
        const auto mixer = made("compressive", options);
        mixer->train();
        Tensors maps;
        Context context = {.mask = {.causal = true, .keep = keep}, .maps = looks ? &maps : nullptr};
        (*mixer)(x, context);
        const auto weight = mixer->named_parameters()["compressor.convolution.weight"];
        return std::pair(context.loss.detach(), torch::autograd::grad({context.loss}, {weight})[0]);
      };
      const auto [loss, gradient] = loss_of(40, 1);
      EXPECT_GT(loss.item<double>(), 0);
      for (const auto& [same, same_gradient] : {loss_of(40, 2), loss_of(57, 3)}) {
        EXPECT_NEAR_TENSOR(same, loss, tolerance(at::kDouble)) << options << looks;
        EXPECT_NEAR_TENSOR(same_gradient, gradient, tolerance(at::kDouble)) << options << looks;
      }
    }
}

TEST(Compressive, TheCompressorLearnsWhatTheReconstructionSays) {
  const auto x = random_normal({2, 41, kWidth}, 11);
  const auto* options = "{memory: 4, slots: 3, rate: 2, reconstruction: 3}";
  const auto run = trained(options, x);
  const auto weight = run.mixer->named_parameters()["compressor.convolution.weight"];
  const auto gradient = torch::autograd::grad({run.loss}, {weight})[0];
  const auto loss_at = [&](int64_t row, int64_t column, double step) {
    const at::NoGradGuard none;
    weight[row][column] += step;
    Context context = {.mask = {.causal = true}};
    (*run.mixer)(x, context);
    weight[row][column] -= step;
    return context.loss.item<double>();
  };
  for (int64_t column = 0; column < weight.size(1); ++column) {
    constexpr double kStep = 1e-5;
    const auto want =
        (loss_at(column % kWidth, column, kStep) - loss_at(column % kWidth, column, -kStep)) /
        (2 * kStep);
    EXPECT_NEAR(gradient[column % kWidth][column].item<double>(), want, 1e-8) << column;
  }
}

TEST(Compressive, WhatDoesNotLearnHasNoLoss) {
  const auto x = random_normal({1, kTokens, kWidth}, 7);
  EXPECT_FALSE(trained("{memory: 4, slots: 3, rate: 2, compression: mean}", x).loss.defined());
  EXPECT_FALSE(trained("{memory: 4, slots: 3, rate: 2, reconstruction: 0}", x).loss.defined());
}

TEST(Compressive, RefusesWhatItCannotDo) {
  EXPECT_EQ(error_of([] { (void)made("compressive", "{segment: 6, rate: 4}"); }),
            "compressive options:1: compressive.segment is 6, which is no multiple of the rate 4; "
            "groups of rows must not begin in one segment and end in another");
  EXPECT_EQ(error_of([] { (void)made("compressive", "{dilation: 2, compression: mean}"); }),
            "compressive options:1: compressive.dilation is 2, but nothing is convolved; leave it "
            "out, or take compression: conv");
}

}  // namespace
}  // namespace longbow
