#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 12, kHeads = 2;
const Site kSite = {.shape = {.width = kWidth, .heads = kHeads, .max_length = 64},
                    .init = "xavier"};

// How much of each key each query has in its slots: [B, H, N, R, M] from `visible` [B, 1, N, M].
Tensor shares(const torch::nn::Module& mixer, const Node& options, const Site& site,
              const Tensor& source, const Tensor& visible) {
  const bool shared = as_boolean(*options.find("share_heads"), "share_heads");
  const int64_t own = shared ? 1 : site.shape.heads, keys = source.size(1);
  const auto control = as_string(*options.find("control"), "control");
  const auto seen = visible.unsqueeze(3);  // [B, 1, N, 1, M]
  const auto parameter = oracle::tensor_of(mixer, "attention.control");
  if (control == "position")
    return parameter.narrow(1, 0, keys).transpose(-2, -1).unsqueeze(0).unsqueeze(2) * seen;
  auto a = source.matmul(parameter.t());  // [B, M, H R]
  if (control == "gate") a = a + oracle::tensor_of(mixer, "attention.gate_bias");
  a = a.unflatten(-1, {own, -1}).permute({0, 2, 3, 1}).unsqueeze(2);  // [B, H, 1, R, M]
  const double clip = as_number(*options.find("clip"), "clip");
  if (clip > 0) a = at::minimum(at::maximum(a, at::full({}, -clip)), at::full({}, clip));
  if (control == "gate") {  // (1 - g_i) times all the later gates up to the query
    auto kept = at::ones_like(a * seen);
    for (int64_t i = keys - 2; i >= 0; --i)
      kept.select(-1, i).copy_(kept.select(-1, i + 1) * at::where(seen.select(-1, i + 1) > 0,
                                                                  at::sigmoid(a.select(-1, i + 1)),
                                                                  1.0));
    return (1 - at::sigmoid(a)) * kept * seen;
  }
  const auto written = (a - a.amax(-1, true)).exp() * seen, total = written.sum(-1, true);
  return written / total.masked_fill(total == 0, 1);
}

// Every query has slots of its own, K~ and V~ [B, H, N, R, D], written by the tokens it sees.
Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site& site, const Tensor& x,
             const Context& context) {
  const auto& source = context.memory.defined() ? context.memory : x;
  const bool hide = as_boolean(*options.find("hide_unwritten"), "hide_unwritten");
  return oracle::multi_head(
      mixer, site, x, context,
      [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
        const auto phi = shares(mixer, options, site, source, visible);
        const auto read =
            hide ? phi.ne(0).any(-1).unsqueeze(3).to(at::kDouble) : at::ones({1}, at::kDouble);
        return oracle::softmax(q.unsqueeze(3), phi.matmul(k.unsqueeze(2)),
                               phi.matmul(v.unsqueeze(2)), read)
            .squeeze(3);
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
  for (const auto& [clip, causal] :
       {std::pair{"32", false}, {"32", true}, {"0", false}, {"0", true}}) {
    const auto mixer = make_mixer("abc", kSite, std::string("{slots: 5, clip: ") + clip + "}");
    set(mixer, "attention.control", 1e4 * random_normal({kHeads * 5, kWidth}, 5));
    const auto x = random_normal({1, 200, kWidth}, 6).to(at::kFloat).requires_grad_();
    Context context = {.mask = {.causal = causal}};
    const auto y = (*mixer)(x, context);
    y.square().sum().backward();
    EXPECT_TRUE(y.isfinite().all().item<bool>());
    EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
  }
}

// A logit of 60 after one of -60: each query's softmax runs over what it sees and nothing else.
TEST(Abc, SteepControlsAreExact) {
  const auto mixer = made("{slots: 5, clip: 0}");
  set(mixer, "attention.control", 30 * random_normal({kHeads * 5, kWidth}, 5));
  const auto options = find_mechanism("abc").resolve(parse_yaml("{slots: 5, clip: 0}", "options"));
  const auto x = random_normal({1, 90, kWidth}, 6);
  for (const bool causal : {false, true}) {
    Context context = {.mask = {.causal = causal}};
    const auto want = dense(*mixer, options, kSite, x, context);
    EXPECT_NEAR_TENSOR((*mixer)(x, context), want, tolerance(at::kDouble));
    mixer->to(at::kFloat);
    EXPECT_NEAR_TENSOR((*mixer)(x.to(at::kFloat), context), want, (Tolerance{1e-3, 1e-3}));
    mixer->to(at::kDouble);
  }
}

// The control writes token j into slot j alone.
TEST(Abc, ByPositionItIsLinformerAndWithASlotForEachPositionSoftmax) {
  constexpr int64_t kTokens = 8;
  const auto mixer =
      made("{slots: 8, control: position, max_length: 8, share_heads: true, hide_unwritten: true}");
  const auto shown = made("{slots: 8, control: position, max_length: 8, share_heads: true}");
  const auto softmax = make_mixer("softmax", kSite),
             linformer = make_mixer("linformer", kSite, "{rank: 8, max_length: 8}");
  softmax->to(at::kDouble);
  linformer->to(at::kDouble);
  const auto table = random_normal({kTokens, kTokens}, 8);
  for (const auto& other : {softmax, linformer, shown})
    for (const auto& entry : other->named_parameters())
      if (mixer->named_parameters().contains(entry.key()))
        set(other, entry.key(), mixer->named_parameters()[entry.key()]);
  const auto x = random_normal({2, kTokens, kWidth}, 9);
  Context all, causal = {.mask = {.causal = true}};
  set(mixer, "attention.control", table.t().unsqueeze(0));
  set(linformer, "e", table);
  EXPECT_NEAR_TENSOR((*mixer)(x, all), (*linformer)(x, all), tolerance(at::kDouble));
  set(mixer, "attention.control", at::eye(kTokens).unsqueeze(0));
  set(shown, "attention.control", at::eye(kTokens).unsqueeze(0));
  for (auto* context : {&all, &causal})
    EXPECT_NEAR_TENSOR((*mixer)(x, *context), (*softmax)(x, *context), tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR((*shown)(x, all), (*softmax)(x, all), tolerance(at::kDouble));
  EXPECT_FALSE((*shown)(x, causal).allclose((*softmax)(x, causal)))
      << "slots still to be written are read as zeros";
}

TEST(Abc, AGateThatIsOpenReadsTheLastToken) {
  const auto mixer = made("{slots: 3, control: gate, gate_bias: -50}");
  set(mixer, "attention.control", at::zeros({kHeads * 3, kWidth}));
  const auto x = random_normal({2, 9, kWidth}, 10);
  Context context = {.mask = {.causal = true}};
  EXPECT_NEAR_TENSOR((*mixer)(x, context), projected(mixer, "output", projected(mixer, "value", x)),
                     tolerance(at::kDouble));
}

// Within the clip a running maximum changes nothing.
TEST(Abc, BothCausalFormsAreTheSame) {
  const auto x = random_normal({2, 90, kWidth}, 15);
  Context context = {.mask = {.causal = true}};
  EXPECT_NEAR_TENSOR((*made("{slots: 5}"))(x, context), (*made("{slots: 5, clip: 0}"))(x, context),
                     tolerance(at::kDouble));
}

// A full lane beside one that still grows: padded tokens have no position of their own.
TEST(Abc, ByPositionAFullLaneCanWait) {
  const at::NoGradGuard no_grad;
  const auto mixer = made("{slots: 3, control: position, max_length: 4}");
  const auto x = random_normal({2, 4, kWidth}, 16);
  Context first = {.mask = Mask::from_lengths(at::tensor({4, 3}, at::kLong), 4)},
          second = {.mask = Mask::from_lengths(at::tensor({0, 1}, at::kLong), 1)},
          causal = {.mask = {.causal = true}};
  State state;
  mixer->start(state, 2, 4, first);
  (void)mixer->extend(x, state, first);
  const auto y = mixer->extend(x.narrow(1, 3, 1), state, second);
  EXPECT_NEAR_TENSOR(y[1], (*mixer)(x, causal)[1].narrow(0, 3, 1), tolerance(at::kDouble));
}

TEST(Abc, ClippedLogitsMoveNothingBeyond) {
  const auto mixer = made("{slots: 5, clip: 0.5}"), free = made("{slots: 5, clip: 0}");
  const auto x = random_normal({1, 9, kWidth}, 11);
  Context context;
  EXPECT_FALSE((*mixer)(x, context).allclose((*free)(x, context)));
  auto sign = random_normal({kHeads * 5, kWidth}, 12).sign();
  set(mixer, "attention.control", 1e3 * sign);
  const auto y = (*mixer)(x, context);
  set(mixer, "attention.control", 1e6 * sign);
  EXPECT_NEAR_TENSOR((*mixer)(x, context), y, tolerance(at::kDouble));
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
  EXPECT_EQ(state.lane.at("slot_keys").sizes(), at::IntArrayRef({2, kHeads, 5, 6}));
  EXPECT_EQ(state.lane.at("slot_values").sizes(), at::IntArrayRef({2, kHeads, 5, 6}));
  EXPECT_EQ(state.lane.at("mass").numel(), 2 * kHeads * 5);
  EXPECT_EQ(state.lane.at("mass").scalar_type(), at::kFloat);
}

// Its keys and values are not kept: a token reads five slots, however long the memory is.
TEST(Abc, AMemoryIsWrittenIntoSlotsOnce) {
  Site site = kSite;
  site.cross = true;
  State state;
  Context context = {.memory = random_normal({2, 40, kWidth}, 17)};
  made("{slots: 5}", site)->start(state, 2, 9, context);
  EXPECT_TRUE(state.lane.empty());
  const auto& lane = state.child.at("memory").lane;
  ASSERT_EQ(lane.size(), 2u);
  EXPECT_EQ(lane.at("slot_keys").sizes(), at::IntArrayRef({2, kHeads, 5, 6}));
  EXPECT_EQ(lane.at("slot_values").sizes(), at::IntArrayRef({2, kHeads, 5, 6}));
}

TEST(Abc, OnlyARunningMaximumAndAGateStartMoreOperatorsForMoreTokens) {
  const auto launches = [](const std::string& options) {
    return find_mechanism("abc").promises(parse_yaml(options, "options")).causal_launches;
  };
  for (const auto* options : {"{clip: 0}", "{clip: 40}", "{control: gate}"})
    EXPECT_EQ(launches(options), Launches::logarithmic) << options;
  for (const auto* options : {"{clip: 32}", "{clip: 1}", "{control: position, clip: 0}"})
    EXPECT_EQ(launches(options), Launches::constant) << options;
}

TEST(Abc, RefusesOptionsThatItDoesNotHave) {
  EXPECT_EQ(error_of([] { (void)made("{slots: 0}"); }),
            "abc options:1: abc.slots is 0, out of range; it may be 1..65536");
  EXPECT_EQ(error_of([] { (void)made("{dropout: 1}"); }),
            "abc options:1: abc.dropout is 1, out of range; it may be 0..0.99");
  EXPECT_EQ(error_of([] { (void)made("{clip: -1}"); }),
            "abc options:1: abc.clip is -1, out of range; it may be >= 0");
  EXPECT_EQ(error_of([] { (void)made("{control: head}"); }),
            "abc options:1: abc.control is 'head'; one of: token, position, gate");
}

TEST(Abc, RefusesWhatItsControlCannotDo) {
  const auto mixer = made("{control: position, max_length: 8}");
  Context context;
  State state;
  EXPECT_EQ(error_of([&] {
              (void)(*mixer)(random_normal({1, 9, kWidth}, 13), context);
            }),
            "abc: 9 keys, but max_length is 8");
  EXPECT_EQ(error_of([&] { mixer->start(state, 1, 9, context); }),
            "abc: 9 keys, but max_length is 8");
  Site unknown = kSite;
  unknown.shape.max_length = 0;
  EXPECT_EQ(error_of([&] { (void)made("{control: position}", unknown); }),
            "abc: needs max_length, here or in the model");
  EXPECT_EQ(error_of([&] {
              (void)(*made("{control: gate}"))(random_normal({1, 3, kWidth}, 14), context);
            }).find("abc: is causal only; mechanisms that do: "),
            0u);
}

}  // namespace
}  // namespace longbow
