#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kLongest = 24, kWidth = 6, kHeads = 2;
const Site kSite = {.shape = {.width = kWidth, .heads = kHeads, .max_length = kLongest},
                    .init = "xavier"};

// What a length projection is, as the definition says: slot r of rows x_j is the sum over j of
// w_rj A_j x_j.
struct Dense {
  Tensor weights;  // [H or 1, R, M]
  Tensor filters;  // [H or 1, D, D, M] or undefined
  Tensor bias;     // [H or 1, R or 1, D or 1] or undefined
};

struct Options {
  const Node& node;
  std::string text(const std::string& key) const { return as_string(*node.find(key), key); }
  bool flag(const std::string& key) const { return as_boolean(*node.find(key), key); }
  int64_t integer(const std::string& key) const { return as_integer(*node.find(key), key); }
};

Tensor parameter(const torch::nn::Module& mixer, const Site& site, const std::string& name) {
  const auto own = mixer.named_parameters(), fixed = mixer.named_buffers();
  if (own.contains(name) || fixed.contains(name)) return oracle::tensor_of(mixer, name);
  return oracle::tensor_of(*site.shared, (site.cross ? "linformer_cross_" : "linformer_") + name);
}

int64_t window_of(const Options& options, const Site& site) {
  const int64_t given = options.integer("max_length");
  const int64_t longest = given > 0 ? given : site.shape.max_length, rank = options.integer("rank");
  return (longest + rank - 1) / rank;
}

Dense dense_projection(const torch::nn::Module& mixer, const Options& options, const Site& site,
                       const std::string& letter, int64_t keys) {
  const bool apart = options.text("sharing") == "none" || options.text("sharing") == "headwise";
  const bool by_head = options.text("sharing") == "none";
  const auto method = options.text("method"), name = letter == "f" && !apart ? "e" : letter;
  const auto heads_first = [&](const Tensor& t) { return by_head ? t : t.unsqueeze(0); };
  Dense dense;
  if (method == "learnable" || method == "fixed_random") {
    dense.weights = heads_first(parameter(mixer, site, name)).narrow(-1, 0, keys);
  } else {
    const auto place = at::arange(keys), slot = at::arange(options.integer("rank")).unsqueeze(1);
    const int64_t window = window_of(options, site);
    dense.weights = (place.floor_divide(window) == slot).to(at::kDouble).unsqueeze(0);
    if (method == "convolution") {
      auto filters = heads_first(parameter(mixer, site, name));
      if (options.flag("depthwise")) filters = filters * at::eye(filters.size(1)).unsqueeze(-1);
      dense.filters = filters.index_select(3, place.remainder(window));
    }
  }
  if (options.flag("bias"))
    dense.bias = heads_first(parameter(mixer, site, name + "_bias"))
                     .unsqueeze(method == "convolution" ? -2 : -1);
  return dense;
}

// For every query its own slots, of the keys that it sees: [B, H, N, R, D].
Tensor slots_seen(const Dense& p, const Options& options, const Tensor& rows, const Tensor& seen) {
  const int64_t heads = rows.size(1);
  const auto w = p.weights.expand({heads, -1, -1});
  auto x = rows;
  if (p.filters.defined())
    x = at::einsum("hedm,bhmd->bhme", {p.filters.expand({heads, -1, -1, -1}), rows});
  const auto by_slot = seen.unsqueeze(3) * w.unsqueeze(1).unsqueeze(0);  // [B, H, N, R, M]
  if (options.text("method") == "max_pool") {
    const auto big = at::where(by_slot.unsqueeze(-1) > 0, x.unsqueeze(2).unsqueeze(2), -1e300);
    return at::where(by_slot.sum(-1, true) > 0, big.amax(4), 0.0);
  }
  auto slots = at::einsum("bhnrm,bhmd->bhnrd", {by_slot, x});
  const auto scale = options.text("scale");
  if (scale == "tokens") slots = slots / seen.sum(-1, true).unsqueeze(3).clamp_min(1);
  if (scale == "mass" || options.text("method") == "mean_pool") {
    const auto mass = by_slot.abs().sum(-1, true);
    slots = slots / at::where(mass > 0, mass, 1.0);
  }
  if (p.bias.defined()) slots = slots + p.bias.unsqueeze(1).unsqueeze(0);
  return slots;
}

// Slots and, in windows, tokens side by side in one softmax. seen [B, 1, N, M].
Tensor attend(const torch::nn::Module& mixer, const Options& options, const Site& site, bool causal,
              const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& seen) {
  const int64_t n = q.size(2), m = k.size(2), rank = options.integer("rank");
  const auto method = options.text("method");
  const bool windows = causal && options.text("causal_form") == "block_causal";
  const auto e = dense_projection(mixer, options, site, "e", m),
             f = dense_projection(mixer, options, site, "f", m);
  const auto kept = windows ? seen.narrow(2, n - 1, 1).expand_as(seen) : seen;  // all real keys
  auto keys = slots_seen(e, options, k, kept), values = slots_seen(f, options, v, kept);
  const auto by_slot = kept.unsqueeze(3) * e.weights.abs().unsqueeze(1).unsqueeze(0);
  auto visible = (seen.sum(-1, true) > 0).expand({-1, q.size(1), -1, rank});
  if (options.flag("hide_unwritten") || method == "mean_pool" || method == "max_pool")
    visible = visible.logical_and(by_slot.sum(-1) > 0);
  if (options.flag("slot_triangle"))
    visible = visible.logical_and(at::arange(rank) <= at::arange(n).unsqueeze(1));
  if (windows) {
    const int64_t window = window_of(options, site);
    const auto own = (at::arange(n) + (m - n)).floor_divide(window).unsqueeze(1);  // [N, 1]
    const auto nonempty = (e.weights > 0)
                              .to(at::kDouble)
                              .matmul(kept.narrow(2, 0, 1).transpose(-2, -1).squeeze(1))
                              .view({-1, 1, 1, rank}) > 0;
    visible = visible.logical_and(at::arange(rank) < own).logical_and(nonempty);
    const auto inside = (at::arange(m).floor_divide(window) == own).logical_and(seen > 0);
    visible = at::cat({visible, inside.expand({-1, q.size(1), -1, -1})}, -1);
    const auto each = [&](const Tensor& slots, const Tensor& rows) {
      return at::cat({slots, rows.unsqueeze(2).expand({-1, -1, n, -1, -1})}, 3);
    };
    keys = each(keys, k);
    values = each(values, v);
  }
  const auto scores =
      keys.matmul(q.unsqueeze(-1)).squeeze(-1) / std::sqrt(static_cast<double>(q.size(3)));
  const auto weights = (scores - scores.amax(-1, true)).exp() * visible;
  const auto sum = weights.sum(-1, true);
  const auto p = weights / at::where(sum > 0, sum, 1.0);
  return p.unsqueeze(3).matmul(values).squeeze(3);
}

Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site& site, const Tensor& x,
             const Context& context) {
  return oracle::multi_head(
      mixer, site, x, context,
      [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& seen) {
        const bool all = Options{options}.flag("official");
        return attend(mixer, {options}, site, context.mask.causal, q, k, v,
                      all ? at::ones_like(seen) : seen);
      });
}
const bool registered = oracle::add("linformer", dense);

Mixer made(const std::string& options, Site site = kSite) {
  auto mixer = make_mixer("linformer", site, options);
  mixer->to(at::kDouble);
  return mixer;
}

void set(const Mixer& mixer, const std::string& name, const Tensor& value) {
  const at::NoGradGuard no_grad;
  mixer->named_parameters()[name].copy_(value);
}

// The same projections in both mechanisms.
void copy_projections(const Mixer& from, const Mixer& to) {
  for (const auto& name : {"query", "key", "value", "output"})
    for (const auto& part : {".weight", ".bias"})
      set(to, std::string(name) + part, from->named_parameters()[std::string(name) + part]);
}

TEST(Linformer, WithAnIdentityProjectionItIsSoftmax) {
  const auto mixer = made("{rank: 24}"), softmax = make_mixer("softmax", kSite);
  softmax->to(at::kDouble);
  copy_projections(mixer, softmax);
  const auto x = random_normal({2, kLongest, kWidth}, 1);
  Context context;
  for (const auto& e : {at::eye(kLongest), at::eye(kLongest).flip(0)}) {  // and any permutation
    set(mixer, "e", e);
    EXPECT_NEAR_TENSOR((*mixer)(x, context), (*softmax)(x, context), tolerance(at::kDouble));
  }
}

TEST(Linformer, ABiasReachesASlotAsOftenAsTheSlotReadsRealTokens) {
  for (const std::string sharing : {"kv", "headwise", "none"}) {
    const auto mixer = made("{rank: 5, sharing: " + sharing + "}");
    set(mixer, "key.bias", random_normal({kWidth}, 2));
    set(mixer, "value.bias", random_normal({kWidth}, 3));
    const auto x = random_normal({2, 11, kWidth}, 4);
    Context context = {.mask = Mask::from_lengths(at::tensor({11, 7}), 11)};
    const auto options = find_mechanism("linformer")
                             .resolve(parse_yaml("{rank: 5, sharing: " + sharing + "}", "options"));
    EXPECT_NEAR_TENSOR((*mixer)(x, context), dense(*mixer, options, kSite, x, context),
                       tolerance(at::kDouble));
  }
}

TEST(Linformer, CausallyWithAnIdentityAndUnwrittenSlotsHiddenItIsCausalSoftmax) {
  const auto softmax = make_mixer("softmax", kSite);
  softmax->to(at::kDouble);
  const auto x = random_normal({2, kLongest, kWidth}, 8);
  Context causal = {.mask = {.causal = true}};
  const auto run = [&](const std::string& options) {
    const auto mixer = made(options);
    copy_projections(mixer, softmax);
    if (mixer->named_parameters().contains("e")) set(mixer, "e", at::eye(kLongest));
    return std::pair{(*mixer)(x, causal), (*softmax)(x, causal)};
  };
  // Windows of one token, and one window of all, are exact as well.
  for (const auto* options : {"{rank: 24, hide_unwritten: true}",
                              "{rank: 24, method: mean_pool, causal_form: block_causal}",
                              "{rank: 1, method: mean_pool, causal_form: block_causal}"}) {
    const auto [y, exact] = run(options);
    EXPECT_NEAR_TENSOR(y, exact, tolerance(at::kDouble)) << options;
  }
  const auto [y, exact] = run("{rank: 24}");
  EXPECT_FALSE(y.allclose(exact)) << "slots of zeros take their share";
}

TEST(Linformer, AMeanIsAMatrixOfBlocksAndAConvolutionOfAverages) {
  const auto pool = made("{rank: 6, method: mean_pool}");
  const auto x = random_normal({2, kLongest, kWidth}, 9);
  for (const auto* options :
       {"{rank: 6, start: block_average}", "{rank: 6, start: block_average, sharing: none}",
        "{rank: 6, method: convolution, start: block_average}",
        "{rank: 6, method: convolution, start: block_average, depthwise: true, sharing: none}"}) {
    const auto mixer = made(options);
    copy_projections(mixer, pool);
    Context context;
    EXPECT_NEAR_TENSOR((*mixer)(x, context), (*pool)(x, context), (Tolerance{1e-7, 1e-6}))
        << options;
  }
}

int64_t projection_numbers(const std::string& options) {
  int64_t count = 0;
  const auto mixer = made("{rank: 6, " + options + "}");
  for (const auto& tensors : {mixer->named_parameters(), mixer->named_buffers()})
    for (const auto& entry : tensors)
      if (entry.key()[0] == 'e' || entry.key()[0] == 'f') count += entry.value().numel();
  return count;
}

TEST(Linformer, SharingSaysHowManyProjectionsThereAre) {
  constexpr int64_t kMatrix = 6 * kLongest, kHead = kWidth / kHeads,
                    kFilters = kHead * kHead * kLongest / 6;
  for (const std::string method : {"", "method: fixed_random, "}) {
    EXPECT_EQ(projection_numbers(method + "sharing: none"), 2 * kHeads * kMatrix);
    EXPECT_EQ(projection_numbers(method + "sharing: headwise"), 2 * kMatrix);
    EXPECT_EQ(projection_numbers(method + "sharing: kv"), kMatrix);
  }
  EXPECT_EQ(projection_numbers("sharing: headwise, bias: true"), 2 * (kMatrix + 6));
  const std::string convolution = "method: convolution, ";
  EXPECT_EQ(projection_numbers(convolution + "sharing: none"), 2 * kHeads * kFilters);
  EXPECT_EQ(projection_numbers(convolution + "sharing: headwise"), 2 * kFilters);
  EXPECT_EQ(projection_numbers(convolution + "bias: true"), kFilters + kHead);
  EXPECT_EQ(projection_numbers(convolution + "depthwise: true"), kFilters / kHead);
  EXPECT_EQ(projection_numbers("method: mean_pool"), 0);
  EXPECT_EQ(projection_numbers("method: max_pool"), 0);
}

TEST(Linformer, LayerwiseAllLayersReadOneProjection) {
  for (const std::string method : {"learnable", "convolution"}) {
    Site site = kSite;
    site.shared = std::make_shared<Shared>();
    const auto options = "{rank: 6, sharing: layerwise, method: " + method + "}";
    const auto first = made(options, site.at("layers.0")),
               second = made(options, site.at("layers.1"));
    EXPECT_EQ(site.shared->named_parameters().size(), 1u);
    EXPECT_FALSE(first->named_parameters().contains("e"));
    site.shared->to(at::kDouble);
    const auto x = random_normal({1, 9, kWidth}, 5);
    Context context;
    ((*first)(x, context).sum() + (*second)(x, context).square().sum()).backward();
    const auto both = site.shared->parameters()[0].grad().clone();
    site.shared->zero_grad();
    (*first)(x, context).sum().backward();
    EXPECT_FALSE(both.allclose(site.shared->parameters()[0].grad()));
  }
}

TEST(Linformer, AFixedProjectionIsDrawnOnceAndSaved) {
  const auto deviation = [](const std::string& options) {
    const auto mixer =
        make_mixer("linformer", {.shape = {.width = 4, .max_length = 2000}}, options);
    EXPECT_FALSE(mixer->named_parameters().contains("e"));
    return mixer->named_buffers()["e"].std().item<double>();
  };
  EXPECT_NEAR(deviation("{rank: 16, method: fixed_random}"), 0.25, 0.01);
  EXPECT_NEAR(deviation("{rank: 16, method: fixed_random, deviation: inverse}"), 0.0625, 0.002);
  Site site = kSite;
  site.shared = std::make_shared<Shared>();
  for (const auto* layer : {"layers.0", "layers.1"})
    (void)made("{rank: 6, method: fixed_random, sharing: layerwise}", site.at(layer));
  EXPECT_EQ(site.shared->named_parameters().size(), 0u);
  EXPECT_EQ(site.shared->named_buffers().size(), 1u);
}

TEST(Linformer, LaterLayersMayHaveFewerSlots) {
  Site site = kSite;
  for (const auto& [layer, rank] : {std::pair<int64_t, int64_t>{0, 7}, {1, 4}, {2, 1}, {9, 1}}) {
    site.layer = layer;
    const auto mixer = made("{rank: 7, rank_step: 3}", site);
    EXPECT_EQ(mixer->named_parameters()["e"].sizes(), (at::IntArrayRef{rank, kLongest}));
  }
}

TEST(Linformer, TheOutputProjectionHasTwoStepsOrNone) {
  const auto x = random_normal({2, 9, kWidth}, 10);
  Context context;
  const auto whole = made("{rank: 5}"), parts = made("{rank: 5, output_rank: 4}"),
             none = made("{rank: 5, output: false}");
  for (const auto* name : {"query", "key", "value"})
    for (const auto& other : {parts, none})
      for (const std::string part : {".weight", ".bias"})
        set(other, name + part, whole->named_parameters()[name + part]);
  for (const auto& other : {parts, none}) set(other, "e", whole->named_parameters()["e"]);
  const auto p = parts->named_parameters();
  set(whole, "output.weight", p["output.weight"].matmul(p["output_in.weight"]));
  EXPECT_NEAR_TENSOR((*parts)(x, context), (*whole)(x, context), tolerance(at::kDouble));
  set(whole, "output.weight", at::eye(kWidth));
  EXPECT_NEAR_TENSOR((*none)(x, context), (*whole)(x, context), tolerance(at::kDouble));
}

// With dropout: a head drops the same weights by itself as among the others.
TEST(Linformer, HeadsOneAfterAnotherAreTheHeadsTogether) {
  const auto mask = Mask::from_lengths(at::tensor({9, 6}), 9);
  for (const std::string sharing : {"none", "kv"})
    for (const std::string more : {"slot_triangle: true", "hide_unwritten: true"}) {
      const auto options = "rank: 5, dropout: 0.3, sharing: " + sharing + ", " + more;
      Tensors want;
      for (const auto* heads : {"false", "true"}) {
        const auto mixer = made("{" + options + ", recompute_heads: " + heads + "}");
        mixer->train();
        auto x = random_normal({2, 9, kWidth}, 10).requires_grad_();
        Context context = {.mask = mask, .random = Random::from_seed(4)};
        const auto y = (*mixer)(x, context);
        y.square().sum().backward();
        Tensors got = {{"y", y}, {"x", x.grad()}};
        for (const auto& item : mixer->named_parameters()) got[item.key()] = item.value().grad();
        if (want.empty()) want = got;
        for (const auto& [name, value] : want)
          EXPECT_NEAR_TENSOR(got.at(name), value, tolerance(at::kDouble)) << options << " " << name;
      }
    }
}

TEST(Linformer, TheLastCausalQueryReadsWhatABidirectionalOneDoes) {
  const auto x = random_normal({2, 17, kWidth}, 11);
  Context plain, causal = {.mask = {.causal = true}};
  for (const auto* options :
       {"{rank: 6, sharing: none, bias: true}", "{rank: 6, scale: tokens}",
        "{rank: 6, scale: mass, hide_unwritten: true}", "{rank: 6, method: mean_pool}",
        "{rank: 6, method: convolution, bias: true, sharing: headwise}"}) {
    const auto mixer = made(options);
    EXPECT_NEAR_TENSOR((*mixer)(x, causal).select(1, 16), (*mixer)(x, plain).select(1, 16),
                       (Tolerance{1e-11, 1e-11}))
        << options;
  }
}

TEST(Linformer, AMemoryWithHolesIsReadOnceWhileDecoding) {
  Site site = kSite;
  site.cross = true;
  const auto mixer = made("{rank: 5}", site);
  const auto memory = random_normal({2, 9, kWidth}, 12), x = random_normal({2, 4, kWidth}, 13);
  const auto keep = random_normal({2, 9}, 14) > 0;
  Context context = {.mask = Mask::from_keep(keep), .memory = memory};
  const auto whole = (*mixer)(x, context);
  State state;
  mixer->start(state, 2, 4, context);
  EXPECT_EQ(state.lane.at("memory_keys").sizes(), (at::IntArrayRef{2, kHeads, 5, 3}));
  for (int64_t t = 0; t < 4; ++t) {
    Context step;
    EXPECT_NEAR_TENSOR(mixer->extend(x.narrow(1, t, 1), state, step), whole.narrow(1, t, 1),
                       tolerance(at::kDouble));
  }
}

TEST(Linformer, ATriangleOverSlotsIsNoCausalMask) {
  const auto mixer = made("{rank: 4, slot_triangle: true}");
  const auto x = random_normal({1, 8, kWidth}, 15);
  Context plain, causal = {.mask = {.causal = true}};
  auto later = x.clone();
  later.select(1, 7).add_(1);
  EXPECT_FALSE((*mixer)(x, plain)[0][0].allclose((*mixer)(later, plain)[0][0]));
  EXPECT_TRUE(error_of([&] {
                (*mixer)(x, causal);
              }).starts_with("linformer: is not causal; mechanisms that do: "));
}

TEST(Linformer, MaxLengthIsItsOwnOrTheModels) {
  Context context;
  EXPECT_EQ(error_of([&] {
              (*made("{rank: 2}"))(random_normal({1, 25, kWidth}, 6), context);
            }),
            "linformer: 25 keys, but max_length is 24");
  const auto longer = made("{rank: 2, max_length: 30}");
  EXPECT_EQ((*longer)(random_normal({1, 25, kWidth}, 6), context).size(1), 25);
}

TEST(Linformer, TheOfficialFormReadsPadding) {
  const auto official = made("{rank: 4, official: true}"), plain = made("{rank: 4}");
  const auto x = random_normal({1, 9, kWidth}, 11);
  Context padded = {.mask = {.keep = (at::arange(9) < 5).unsqueeze(0)}}, all;
  EXPECT_NEAR_TENSOR((*official)(x, padded).slice(1, 0, 5), (*plain)(x, all).slice(1, 0, 5),
                     kExact);
}

std::string refused(const std::string& options, const Site& site = kSite) {
  return error_of([&] { (void)made(options, site); });
}

TEST(Linformer, RefusesWhatItCannotDo) {
  Site bare = kSite;
  bare.shape.max_length = 0;
  EXPECT_EQ(refused("", bare), "linformer: needs max_length, here or in the model");
  EXPECT_EQ(refused("{rank: 0}"),
            "linformer options:1: linformer.rank is 0, out of range; it may be 1..65536");
  EXPECT_EQ(refused("{rank: 2, sharing: layerwise}"),
            "linformer: layerwise sharing needs a stack that owns the projection");
  EXPECT_EQ(
      refused("{rank: 2, sharing: none, official: true}"),
      "linformer options:1: linformer.official needs method: learnable and sharing: kv; leave "
      "all three out, or set both");
}

TEST(Linformer, WhatHasNoRunningSumIsNotCausal) {
  Context causal = {.mask = {.causal = true}};
  EXPECT_TRUE(error_of([&] {
                (*made("{rank: 6, method: max_pool}"))(random_normal({1, 3, kWidth}, 7), causal);
              }).starts_with("linformer: is not causal; mechanisms that do: "));
  State state;
  EXPECT_EQ(error_of([&] { made("{rank: 2}")->start(state, 1, 25, causal); }),
            "linformer: 25 keys, but max_length is 24");
}

}  // namespace
}  // namespace longbow
