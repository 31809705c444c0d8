#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 6;
const Site kSite = {.shape = {.width = kWidth, .heads = 2, .max_length = 64}, .init = "xavier"};

// [H, N, N] of 0 and 1, pair by pair, before the causal mask.
Tensor pattern(const Node& options, const Site& site, int64_t n, bool causal) {
  const auto integer = [&](const char* key) { return as_integer(*options.find(key), key); };
  const auto text = [&](const char* key) { return as_string(*options.find(key), key); };
  const bool strided = text("pattern") == "strided",
             official = as_boolean(*options.find("official"), "");
  const int64_t c = integer("summary"), slices = integer("slices"), heads = site.shape.heads;
  const auto root = static_cast<int64_t>(std::ceil(std::sqrt(site.shape.max_length)));
  const int64_t l =
      integer("stride") > 0 ? integer("stride") : std::max(root, strided ? 1 : c * slices);
  auto all = at::zeros({heads, n, n}, at::kDouble);
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const bool by_head = text("combine") == "heads" && heads > 1;
        const int64_t half = by_head ? (heads + 1) / 2 : 0;
        const int64_t end = l - ((h - half + slices * heads) % slices) * c;
        const bool near = strided ? std::abs(i - j) < l : i / l == j / l;
        const bool summary = (j % l >= end - c && j % l < end) || (official && j % l == 0);
        const bool far = strided ? (i - j) % l == 0 : summary || i == j;
        bool sees = near || far;
        if (text("combine") == "layers") sees = site.layer % 2 ? far : near;
        if (by_head) sees = h < half ? near : far;
        if (official && !causal) sees = (sees && j <= i) || i == 0;
        if (sees) all[h][i][j] = 1;
      }
  return all;
}

const bool registered =
    oracle::add("sparse", [](const torch::nn::Module& mixer, const Node& options, const Site& site,
                             const Tensor& x, const Context& context) {
      return oracle::multi_head(
          mixer, site, x, context,
          [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
            return oracle::softmax(
                q, k, v, visible * pattern(options, site, x.size(1), context.mask.causal));
          });
    });

Mixer made(const std::string& name, const std::string& options, int64_t layer = 0) {
  auto site = kSite;
  site.layer = layer;
  site.layers = 2;
  auto mixer = make_mixer(name, site, options);
  mixer->to(at::kDouble);
  return mixer;
}

TEST(Sparse, AStrideOverEverythingIsSoftmax) {
  const auto x = random_normal({2, 30, kWidth}, 1);
  for (const bool causal : {false, true})
    for (const auto* options :
         {"{stride: 30}", "{pattern: fixed, stride: 30}", "{stride: 1, combine: layers}",
          "{pattern: fixed, stride: 8, summary: 8}"}) {
      Context context = {.mask = {.causal = causal}};
      EXPECT_NEAR_TENSOR((*made("sparse", options, 1))(x, context),
                         (*made("softmax", ""))(x, context), tolerance(at::kDouble))
          << options;
    }
}

// Layers 0 and 1 read what the two patterns say, and each a query's own token.
TEST(Sparse, LayersReadNearAndFarInTurn) {
  for (const auto* options :
       {"{combine: layers, stride: 5}", "{combine: layers, pattern: fixed, stride: 6, summary: 2}"})
    for (const int64_t layer : {0, 1})
      for (const bool causal : {false, true}) {
        const auto mixer = made("sparse", options, layer);
        const auto x = random_normal({1, 23, kWidth}, 2);
        auto site = kSite;
        site.layer = layer;
        Context context = {.mask = {.causal = causal}};
        const auto resolved = find_mechanism("sparse").resolve(parse_yaml(options, "options"));
        EXPECT_NEAR_TENSOR((*mixer)(x, context),
                           (*oracle::find("sparse"))(*mixer, resolved, site, x, context),
                           tolerance(at::kDouble))
            << options << " " << layer;
      }
}

// From any token every earlier one is reached: two layers, or one after the other merged.
TEST(Sparse, TwoLayersReachEveryEarlierToken) {
  const auto reached = [](const std::string& options, int64_t first, int64_t second) {
    const auto a = made("sparse", options, first), b = made("sparse", options, second);
    const auto x = random_normal({1, 36, kWidth}, 3).requires_grad_();
    Context context = {.mask = {.causal = true}};
    (*b)((*a)(x, context), context)[0][35].sum().backward();
    return x.grad()[0].abs().amax(1).gt(0).sum().item<int64_t>();
  };
  EXPECT_EQ(reached("{combine: layers, stride: 6}", 0, 1), 36);
  EXPECT_EQ(reached("{combine: layers, stride: 6}", 1, 0), 36);
  EXPECT_EQ(reached("{pattern: fixed, stride: 6, summary: 1}", 0, 0), 36);
}

TEST(Sparse, TheStrideIsTheRootOfTheLongestSequence) {
  const auto same = [](const std::string& a, const std::string& b) {
    const auto x = random_normal({1, 60, kWidth}, 4);
    Context context;
    return at::allclose((*made("sparse", a))(x, context), (*made("sparse", b))(x, context));
  };
  EXPECT_TRUE(same("", "{stride: 8}"));  // of 64
  EXPECT_FALSE(same("", "{stride: 7}"));
  EXPECT_TRUE(same("{pattern: fixed, summary: 10}", "{pattern: fixed, summary: 10, stride: 10}"));
}

TEST(Sparse, RefusesWhatItCannotDo) {
  EXPECT_EQ(
      error_of([] { (void)made("sparse", "{pattern: fixed, stride: 8, summary: 3, slices: 3}"); }),
      "sparse options:1: sparse.summary times slices is more than stride; a block must hold "
      "all summaries");
  EXPECT_EQ(
      error_of([] { (void)made("sparse", "{official: true}"); }),
      "sparse options:1: sparse.official needs pattern: fixed and combine: merged; set both, or "
      "leave it out");
}

}  // namespace
}  // namespace longbow
