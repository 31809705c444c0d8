#include <ATen/ATen.h>

#include <set>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 6;
const Site kSite = {.shape = {.width = kWidth, .heads = 2, .max_length = 64}, .init = "xavier"};

struct Reading {
  int64_t window, first;
  std::vector<int64_t> dilation;
  bool projections, official;
};
Reading reading_of(const Node& options) {
  Reading r = {as_integer(*options.find("window"), "window"),
               as_integer(*options.find("global_tokens"), "global_tokens"),
               {},
               as_boolean(*options.find("global_projections"), "global_projections"),
               as_boolean(*options.find("official"), "official")};
  for (const auto& d : options.find("dilation")->items)
    r.dilation.push_back(as_integer(d, "dilation"));
  return r;
}

// Which tokens of row b are global: real ones that are first or that the mask names.
std::set<int64_t> globals(const Reading& r, const Context& context, int64_t b, int64_t n) {
  std::set<int64_t> all;
  for (int64_t t = 0; t < std::min(r.first, n); ++t) all.insert(t);
  if (context.mask.globals.defined())
    for (int64_t g = 0; g < context.mask.globals.size(1); ++g)
      all.insert(context.mask.globals[b][g].item<int64_t>());
  std::erase_if(all, [&](int64_t t) {
    return t < 0 || (context.mask.keep.defined() && !context.mask.keep[b][t].item<bool>());
  });
  return all;
}

// Windows by the first projections, rows of global tokens by the second, pair by pair.
Tensor longformer(const torch::nn::Module& mixer, const Node& options, const Site& site,
                  const Tensor& x, const Context& context) {
  const auto r = reading_of(options);
  const int64_t batch = x.size(0), n = x.size(1), heads = site.shape.heads;
  auto near = at::zeros({batch, heads, n, n}, at::kDouble), is_global = at::zeros({batch, 1, n, 1});
  for (int64_t b = 0; b < batch; ++b) {
    const auto all = globals(r, context, b, n);
    for (const int64_t g : all) is_global[b][0][g][0] = 1;
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t d = r.dilation[static_cast<size_t>(h) % r.dilation.size()];
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j)
          if (all.count(j) || (std::abs(i - j) <= d * r.window && (i - j) % d == 0))
            near[b][h][i][j] = r.official && !context.mask.causal && i - j == d * r.window ? 0 : 1;
    }
  }
  const auto project = [&](const std::string& name, const Tensor& from) {
    auto y = from.matmul(oracle::tensor_of(mixer, name + ".weight").t());
    if (site.bias) y = y + oracle::tensor_of(mixer, name + ".bias");
    return split_heads(y, heads);
  };
  return oracle::multi_head(
      mixer, site, x, context,
      [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
        const auto y = oracle::softmax(q, k, v, visible * near);
        const auto rows =
            r.projections ? oracle::softmax(project("global_query", x), project("global_key", x),
                                            project("global_value", x), visible)
                          : oracle::softmax(q, k, v, visible);
        return at::where(is_global > 0, rows, y);
      });
}
const bool registered = oracle::add("longformer", longformer);

Mixer made(const std::string& name, const std::string& options, const Site& site = kSite) {
  auto mixer = make_mixer(name, site, options);
  mixer->to(at::kDouble);
  return mixer;
}

TEST(Longformer, AWindowOverEverythingIsSoftmaxWhateverIsGlobal) {
  const auto x = random_normal({2, 30, kWidth}, 1);
  for (const bool causal : {false, true})
    for (const auto* globals : {"0", "3"}) {
      Context context = {.mask = {.causal = causal}};
      const auto mixer = made("longformer", std::string("{window: 29, global_projections: false, "
                                                        "global_tokens: ") +
                                                globals + "}");
      EXPECT_NEAR_TENSOR((*mixer)(x, context), (*made("softmax", ""))(x, context),
                         tolerance(at::kDouble));
    }
}

TEST(Longformer, AWindowOfNothingGivesTheValues) {
  const auto mixer = made("longformer", "{window: 0, global_tokens: 0}");
  const auto x = random_normal({1, 7, kWidth}, 2);
  Context context;
  const auto value = x.matmul(oracle::tensor_of(*mixer, "value.weight").t());
  EXPECT_NEAR_TENSOR((*mixer)(x, context),
                     value.matmul(oracle::tensor_of(*mixer, "output.weight").t()),
                     tolerance(at::kDouble));
}

// With all tokens global, only the second projections are read.
TEST(Longformer, AllTokensGlobalIsSoftmaxByTheirOwnProjections) {
  const auto mixer = made("longformer", "{window: 2, global_tokens: 30}"),
             softmax = made("softmax", "");
  {
    const at::NoGradGuard no_grad;
    for (const auto* name : {"query", "key", "value"})
      softmax->named_parameters()[std::string(name) + ".weight"].copy_(
          oracle::tensor_of(*mixer, std::string("global_") + name + ".weight"));
    softmax->named_parameters()["output.weight"].copy_(oracle::tensor_of(*mixer, "output.weight"));
  }
  const auto x = random_normal({2, 21, kWidth}, 3);
  for (const bool causal : {false, true}) {
    Context context = {.mask = {.causal = causal}};
    EXPECT_NEAR_TENSOR((*mixer)(x, context), (*softmax)(x, context), tolerance(at::kDouble));
  }
}

// A dilated window is an ordinary one on the tokens of one residue.
TEST(Longformer, ADilatedWindowIsOneOnEachResidue) {
  const auto dilated = made("longformer", "{window: 2, dilation: [3], global_tokens: 0}"),
             plain = made("longformer", "{window: 2, global_tokens: 0}");
  const auto x = random_normal({1, 23, kWidth}, 4);
  Context context;
  const auto y = (*dilated)(x, context);
  for (int64_t residue = 0; residue < 3; ++residue) {
    const auto part = x.slice(1, residue, 23, 3);
    EXPECT_NEAR_TENSOR(y.slice(1, residue, 23, 3), (*plain)(part, context), tolerance(at::kDouble));
  }
}

// Of each row its own, with rows that have fewer, with padding anywhere, and with the first tokens.
void expect_named_globals(const Site& site, const std::string& options, bool causal) {
  const auto mixer = made("longformer", options, site);
  const auto x = random_normal({3, 17, site.shape.width}, 5);
  auto keep = at::ones({3, 17}, at::kBool);
  keep[1].narrow(0, 0, 4).fill_(false);
  keep[2].narrow(0, 6, 3).fill_(false);
  const auto named = at::tensor({0, 9, 16, 12, -1, 5, 7, 3, -1}, at::kLong).view({3, 3});
  Context context = {.mask = Mask::from_keep(keep)};
  context.mask.causal = causal;
  context.mask.globals = named;
  const auto got = (*mixer)(x, context);
  for (int64_t b = 0; b < 3; ++b) {  // each row alone, without its padding
    const auto real = keep[b].nonzero().squeeze(1);
    std::vector<int64_t> places;
    for (int64_t g = 0; g < 3; ++g)
      for (int64_t t = 0; t < real.size(0); ++t)
        if (real[t].item<int64_t>() == named[b][g].item<int64_t>()) places.push_back(t);
    Context alone = {.mask = {.causal = causal}};
    if (!places.empty()) alone.mask.globals = at::tensor(places, at::kLong).unsqueeze(0);
    const auto row = x[b].index_select(0, real).unsqueeze(0);
    const auto want =
        longformer(*mixer, find_mechanism("longformer").resolve(parse_yaml(options, "options")),
                   site, row, alone);
    EXPECT_NEAR_TENSOR(got[b].index_select(0, real).unsqueeze(0), want, tolerance(at::kDouble))
        << options << " " << b;
  }
}

// In wide heads, keys and values of few global tokens are not formed.
TEST(Longformer, TheMaskNamesGlobalTokens) {
  Site wide = kSite;
  wide.shape.width = 32;
  for (const auto& site : {kSite, wide})
    for (const auto* options : {"{window: 2, global_tokens: 0}", "{window: 3, global_tokens: 1}",
                                "{window: 2, global_tokens: 0, global_projections: false}"})
      for (const bool causal : {false, true}) expect_named_globals(site, options, causal);
}

// Rotated scores depend on differences of positions alone.
TEST(Longformer, GlobalTokensAreRotatedByTheirPositions) {
  Site site = kSite;
  site.rotary = Rotary{};
  const auto x = random_normal({2, 19, kWidth}, 9);
  for (const bool named : {false, true}) {
    const auto mixer =
        made("longformer", named ? "{window: 4}" : "{window: 4, global_tokens: 2}", site);
    const auto with = [&](const Tensor& positions) {
      Context context = {.positions = positions};
      if (named) context.mask.globals = at::tensor({3, 11}, at::kLong).expand({2, 2});
      return (*mixer)(x, context);
    };
    const auto t = at::arange(19).unsqueeze(0);
    EXPECT_NEAR_TENSOR(with(t + 100), with({}), (Tolerance{1e-10, 1e-10})) << named;
    EXPECT_FALSE(at::allclose(with(t * 2), with({}), 1e-3, 1e-3));
  }
}

TEST(Longformer, TheRingHoldsTheWindowWhateverTheCapacity) {
  const auto mixer = made("longformer", "{window: 4, dilation: [1, 3], global_tokens: 2}");
  State state;
  Context context;
  mixer->start(state, 3, 1000000, context);
  EXPECT_EQ(state.lane.at("keys").sizes(), at::IntArrayRef({3, 2, 4 * 3 + 1 + 1, 3}));
  EXPECT_EQ(state.lane.at("first_keys").sizes(), at::IntArrayRef({3, 2, 3, 3}));
}

TEST(Longformer, RefusesWhatItCannotDo) {
  EXPECT_EQ(error_of([] { (void)made("longformer", "{dilation: []}"); }),
            "longformer options:1: longformer.dilation is empty; [1] is a window without gaps");
  const auto mixer = made("longformer", "");
  State state;
  Context context;
  mixer->start(state, 1, 8, context);
  context.mask.globals = at::zeros({1, 1}, at::kLong);
  EXPECT_EQ(error_of([&] {
              mixer->extend(random_normal({1, 1, kWidth}, 1), state, context);
            })
                .find("longformer: while decoding, only the first tokens can be global; set "
                      "global_tokens"),
            0u);
}

}  // namespace
}  // namespace longbow
