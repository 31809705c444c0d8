#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 12, kHeads = 2;
const Site kSite = {.shape = {.width = kWidth, .heads = kHeads, .max_length = 64},
                    .init = "xavier"};

// Every query has slots of its own, K~ and V~ [B, H, N, R, D], written by the tokens it sees.
Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site& site, const Tensor& x,
             const Context& context) {
  const bool shared = as_boolean(*options.find("share_heads"), "share_heads");
  const auto& source = context.memory.defined() ? context.memory : x;
  auto a = source.matmul(oracle::tensor_of(mixer, "attention.control").t());  // [B, M, H R]
  a = a.unflatten(-1, {shared ? 1 : site.shape.heads, -1}).transpose(1, 2);   // [B, H, M, R]
  const auto write = (a - a.amax(2, true)).exp().transpose(-2, -1).unsqueeze(2);
  return oracle::multi_head(
      mixer, site, x, context,
      [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
        const auto seen = visible.unsqueeze(3);  // [B, 1, N, 1, M]
        const auto keys = oracle::weighted_mean(write, k.unsqueeze(2), seen),
                   values = oracle::weighted_mean(write, v.unsqueeze(2), seen);
        return oracle::softmax(q.unsqueeze(3), keys, values, at::ones({1}, at::kDouble)).squeeze(3);
      });
}
const bool registered = oracle::add("abc", dense);

Mixer made(const std::string& options = "", const Site& site = kSite) {
  const auto mixer = make_mixer("abc", site, options);
  mixer->to(at::kDouble);
  return mixer;
}

void set(const Mixer& mixer, const std::string& name, const Tensor& value) {
  const at::NoGradGuard no_grad;
  mixer->named_parameters()[name].copy_(value);
}

Tensor projected(const Mixer& mixer, const std::string& name, const Tensor& x) {
  return x.matmul(oracle::tensor_of(*mixer, name + ".weight").t());
}

// The paper's recurrence with a running maximum, token by token: z, K~ and V~ are rescaled whenever
// the maximum m moves.
TEST(Abc, CausallyItIsTheRecurrence) {
  constexpr int64_t kTokens = 40, kSlots = 5, kHead = kWidth / kHeads;
  const auto mixer = made("{slots: 5}");
  const auto x = random_normal({1, kTokens, kWidth}, 1);
  const auto split = [&](const Tensor& rows) { return split_heads(rows, kHeads)[0]; };  // [H, N, D]
  const auto q = split(projected(mixer, "query", x)), k = split(projected(mixer, "key", x)),
             v = split(projected(mixer, "value", x)),
             a = split(x.matmul(oracle::tensor_of(*mixer, "attention.control").t()));
  auto m = at::full({kHeads, kSlots, 1}, -1e9, at::kDouble);
  auto z = at::zeros({kHeads, kSlots, 1}, at::kDouble);
  auto keys = at::zeros({kHeads, kSlots, kHead}, at::kDouble), values = keys;
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < kTokens; ++t) {
    const auto row = [&](const Tensor& heads) { return heads.narrow(1, t, 1); };  // [H, 1, D]
    const auto logit = row(a).transpose(1, 2), most = at::maximum(m, logit);
    const auto fade = (m - most).exp(), gain = (logit - most).exp();
    m = most;
    z = fade * z + gain;
    keys = fade * keys + gain * row(k);
    values = fade * values + gain * row(v);
    rows.push_back(oracle::softmax(row(q), keys / z, values / z, at::ones({1}, at::kDouble)));
  }
  Context context = {.mask = {.causal = true}};
  EXPECT_NEAR_TENSOR((*mixer)(x, context),
                     projected(mixer, "output", merge_heads(at::cat(rows, 1).unsqueeze(0))),
                     tolerance(at::kDouble));
}

// o_i = softmax(q_i K~^T / sqrt D) V~ with K~_r = sum_j phi_jr k_j, one slot and head at a time.
TEST(Abc, BidirectionallyItIsTheEquation) {
  constexpr int64_t kTokens = 17, kSlots = 5, kHead = kWidth / kHeads;
  const auto mixer = made("{slots: 5}");
  const auto x = random_normal({1, kTokens, kWidth}, 2);
  const auto q = projected(mixer, "query", x)[0], k = projected(mixer, "key", x)[0],
             v = projected(mixer, "value", x)[0],
             a = x[0].matmul(oracle::tensor_of(*mixer, "attention.control").t());
  auto o = at::zeros({kTokens, kWidth}, at::kDouble);
  for (int64_t h = 0; h < kHeads; ++h) {
    std::vector<Tensor> keys, values;
    for (int64_t r = 0; r < kSlots; ++r) {
      const auto w = a.select(1, h * kSlots + r).exp();
      keys.push_back(w.matmul(k.narrow(1, h * kHead, kHead)) / w.sum());
      values.push_back(w.matmul(v.narrow(1, h * kHead, kHead)) / w.sum());
    }
    const auto scores = q.narrow(1, h * kHead, kHead).matmul(at::stack(keys).t()) / std::sqrt(6.0);
    const auto weights = scores.exp() / scores.exp().sum(1, true);
    o.narrow(1, h * kHead, kHead).copy_(weights.matmul(at::stack(values)));
  }
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(x, context), projected(mixer, "output", o.unsqueeze(0)),
                     tolerance(at::kDouble));
}

// The first eight channels say where a token stands, and the control reads nothing else.
TEST(Abc, WithASlotForEveryTokenItIsSoftmax) {
  constexpr int64_t kTokens = 8;
  const auto mixer = made("{slots: 8, share_heads: true}"), softmax = make_mixer("softmax", kSite);
  softmax->to(at::kDouble);
  for (const auto& entry : softmax->named_parameters())
    set(softmax, entry.key(), mixer->named_parameters()[entry.key()]);
  const auto place = at::eye(kTokens, at::kDouble);
  set(mixer, "attention.control", at::constant_pad_nd(64 * place - 32, {0, kWidth - kTokens}));
  const auto x = at::cat({place.expand({2, -1, -1}), random_normal({2, kTokens, 4}, 3)}, -1);
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(x, context), (*softmax)(x, context), tolerance(at::kDouble));
}

TEST(Abc, WithoutAControlItIsTheMeanOfTheValues) {
  const auto mixer = made();
  set(mixer, "attention.control", at::zeros({kHeads * 64, kWidth}));
  const auto x = random_normal({2, 19, kWidth}, 4), v = projected(mixer, "value", x);
  Context all, causal = {.mask = {.causal = true}};
  EXPECT_NEAR_TENSOR((*mixer)(x, all), projected(mixer, "output", v.mean(1, true).expand_as(v)),
                     tolerance(at::kDouble));
  const auto count = at::arange(1, 20, at::kDouble).view({1, 19, 1});
  EXPECT_NEAR_TENSOR((*mixer)(x, causal), projected(mixer, "output", v.cumsum(1) / count),
                     tolerance(at::kDouble));
}

// Logits far beyond what exp can take, in float32.
TEST(Abc, SteepControlsStayFinite) {
  const auto mixer = make_mixer("abc", kSite, "{slots: 5}");
  set(mixer, "attention.control", 1e4 * random_normal({kHeads * 5, kWidth}, 5));
  for (const bool causal : {false, true}) {
    const auto x = random_normal({1, 200, kWidth}, 6).to(at::kFloat).requires_grad_();
    Context context = {.mask = {.causal = causal}};
    const auto y = (*mixer)(x, context);
    y.square().sum().backward();
    EXPECT_TRUE(y.isfinite().all().item<bool>());
    EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
  }
}

TEST(Abc, HeadsWriteWithTheirOwnWeightsOrTheSame) {
  const auto control = [](const std::string& options) {
    return made(options)->named_parameters()["attention.control"].sizes().vec();
  };
  EXPECT_EQ(control("{slots: 5}"), (std::vector<int64_t>{kHeads * 5, kWidth}));
  EXPECT_EQ(control("{slots: 5, share_heads: true}"), (std::vector<int64_t>{5, kWidth}));
}

TEST(Abc, TheWeightsOfReadingCanBeSeen) {
  const auto mixer = made("{slots: 5}");
  for (const bool causal : {false, true}) {
    Tensors maps;
    Context context = {.mask = {.causal = causal}, .maps = &maps};
    (*mixer)(random_normal({2, 9, kWidth}, 7), context);
    ASSERT_EQ(maps.size(), 1u);
    EXPECT_EQ(maps.begin()->second.sizes(), at::IntArrayRef({2, kHeads, 9, 5}));
    EXPECT_NEAR_TENSOR(maps.begin()->second.sum(-1), at::ones({2, kHeads, 9}, at::kDouble),
                       tolerance(at::kDouble));
  }
}

TEST(Abc, TheStateIsAsManySlotsWhateverTheLength) {
  const auto mixer = make_mixer("abc", kSite, "{slots: 5}");
  mixer->to(at::kBFloat16);
  State state;
  Context context;
  mixer->start(state, 2, 1000000, context);
  ASSERT_EQ(state.lane.size(), 3u);
  EXPECT_EQ(state.lane.at("keys").sizes(), at::IntArrayRef({2, kHeads, 5, 6}));
  EXPECT_EQ(state.lane.at("values").sizes(), at::IntArrayRef({2, kHeads, 5, 6}));
  EXPECT_EQ(state.lane.at("mass").numel(), 2 * kHeads * 5);
  EXPECT_EQ(state.lane.at("mass").scalar_type(), at::kFloat);
}

TEST(Abc, RefusesOptionsThatItDoesNotHave) {
  EXPECT_EQ(error_of([] { (void)made("{slots: 0}"); }),
            "abc options:1: abc.slots is 0, out of range; it may be 1..65536");
  EXPECT_EQ(error_of([] { (void)made("{dropout: 1}"); }),
            "abc options:1: abc.dropout is 1, out of range; it may be 0..0.99");
}

}  // namespace
}  // namespace longbow
