#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 6;
const Site kSite = {.shape = {.width = kWidth, .heads = 2, .max_length = 64}, .init = "xavier"};

// Global tokens first, then the long ones, and every pair by itself.
struct Definition {
  const torch::nn::Module& mixer;
  int64_t heads, radius, globals, clip, segment;
  std::string share;

  Definition(const torch::nn::Module& module, const Node& node, int64_t count)
      : mixer(module),
        heads(count),
        radius(integer(node, "radius")),
        globals(integer(node, "globals")),
        clip(integer(node, "clip")),
        segment(integer(node, "segment")),
        share(as_string(*node.find("share"), "share")) {}
  static int64_t integer(const Node& node, const char* key) {
    return as_integer(*node.find(key), key);
  }

  bool is_global(int64_t i) const { return i < globals; }
  Tensor projected(const std::string& name, const Tensor& row) const {  // [C] -> [H, D]
    return at::linear(row, oracle::tensor_of(mixer, name + ".weight"),
                      oracle::tensor_of(mixer, name + ".bias"))
        .view({heads, -1});
  }
  std::string side(int64_t i) const { return is_global(i) ? "global" : "long"; }
  std::string of_side(int64_t i, const char* name) const {
    return (share == "all" ? "long" : side(i)) + "_" + name;
  }
  std::string piece(int64_t i, int64_t j, const char* name) const {
    if (share == "all") return std::string("l2l_") + name;
    const std::string from = is_global(i) ? "g" : "l", to = is_global(j) ? "g" : "l";
    return from + "2" + (share == "side" ? from : to) + "_" + name;
  }
  int64_t label(int64_t i, int64_t j) const {
    if (is_global(i) == is_global(j)) return std::clamp(j - i, -clip, clip) + clip;
    const int64_t a = std::min(i, j), token = std::max(i, j) - globals;
    return 2 * clip + 1 + (segment > 0 && token / segment == a ? 1 : 0);
  }

  // What row i of all [m + N, C] reads, projected: [C].
  Tensor read(const Tensor& all, const Tensor& real, int64_t i) const {
    const auto q = projected(of_side(i, "query"), all[i]);
    std::vector<Tensor> scores, values;
    for (int64_t j = 0; j < all.size(0); ++j) {
      const bool far = !is_global(i) && !is_global(j) && std::abs(i - j) > radius;
      if (far || !real[j].item<bool>()) continue;
      auto score = (q * projected(piece(i, j, "key"), all[j])).sum(-1);
      if (clip > 0)
        score = score +
                (q * oracle::tensor_of(mixer, side(i) + "_labels").select(1, label(i, j))).sum(-1) +
                oracle::tensor_of(mixer, side(i) + "_label_bias").select(2, label(i, j)).squeeze(1);
      scores.push_back(score / std::sqrt(static_cast<double>(q.size(1))));
      values.push_back(projected(piece(i, j, "value"), all[j]));
    }
    auto y = at::zeros_like(q);
    if (!scores.empty())
      y = (at::stack(scores).softmax(0).unsqueeze(-1) * at::stack(values)).sum(0);
    return at::linear(y.flatten(), oracle::tensor_of(mixer, of_side(i, "output") + ".weight"),
                      oracle::tensor_of(mixer, of_side(i, "output") + ".bias"));
  }
};

const bool registered =
    oracle::add("etc", [](const torch::nn::Module& mixer, const Node& node, const Site& site,
                          const Tensor& x, const Context& context) {
      const Definition definition(mixer, node, site.shape.heads);
      std::vector<Tensor> rows;
      for (int64_t b = 0; b < x.size(0); ++b) {
        auto all = x[b].to(at::kDouble), real = context.mask.keep.defined()
                                                    ? context.mask.keep[b]
                                                    : at::ones({x.size(1)}, at::kBool);
        if (definition.globals > 0) {
          all = at::cat({oracle::tensor_of(*site.shared, "etc_globals"), all});
          real = at::cat({at::ones({definition.globals}, at::kBool), real});
        }
        std::vector<Tensor> read;
        for (int64_t i = definition.globals; i < all.size(0); ++i)
          read.push_back(definition.read(all, real, i));
        rows.push_back(at::stack(read));
      }
      return oracle::without_padding(at::stack(rows), context);
    });

Mixer made(const std::string& name, const std::string& options, const Site& site = kSite) {
  auto mixer = make_mixer(name, site, options);
  mixer->to(at::kDouble);
  return mixer;
}

const char* const kPlain[][2] = {
    {"query", "long_query"}, {"key", "l2l_key"}, {"value", "l2l_value"}, {"output", "long_output"}};
// softmax with the projections of the long side.
Mixer softmax_like(const Mixer& mixer) {
  const at::NoGradGuard no_grad;
  auto softmax = made("softmax", "");
  for (const auto& [ours, theirs] : kPlain)
    softmax->named_parameters()[std::string(ours) + ".weight"].copy_(
        oracle::tensor_of(*mixer, std::string(theirs) + ".weight"));
  return softmax;
}

TEST(Etc, ARadiusOverEverythingWithoutGlobalsAndLabelsIsSoftmax) {
  const auto mixer = made("etc", "{radius: 30, globals: 0, clip: 0}");
  const auto x = random_normal({2, 30, kWidth}, 1);
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(x, context), (*softmax_like(mixer))(x, context),
                     tolerance(at::kDouble));
}

TEST(Etc, WithEverythingSharedItIsSoftmaxOverGlobalAndLongTokens) {
  const auto mixer = made("etc", "{radius: 30, globals: 4, clip: 0}");
  const auto x = random_normal({2, 20, kWidth}, 2), g = random_normal({2, 4, kWidth}, 3);
  Context context = {.carry = {{"etc", g}}}, plain;
  const auto y = (*mixer)(x, context);
  const auto want = (*softmax_like(mixer))(at::cat({g, x}, 1), plain);
  EXPECT_NEAR_TENSOR(y, want.narrow(1, 4, 20), tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(context.carry.at("etc"), at::layer_norm(g + want.narrow(1, 0, 4), {kWidth}),
                     tolerance(at::kDouble));
}

TEST(Etc, WithoutGlobalsAndLabelsItIsABand) {
  const auto mixer = made("etc", "{radius: 3, globals: 0, clip: 0}");
  const auto x = random_normal({1, 17, kWidth}, 4).requires_grad_();
  Context context;
  (*mixer)(x, context)[0][8].sum().backward();
  for (int64_t j = 0; j < 17; ++j)
    EXPECT_EQ(x.grad()[0][j].abs().max().item<double>() > 0, std::abs(j - 8) <= 3) << j;
}

// A constant in every score of a row cancels.
TEST(Etc, LabelsThatAreAllTheSameChangeNothing) {
  const at::NoGradGuard no_grad;
  const auto mixer = made("etc", "{radius: 3, globals: 4, clip: 2}");
  for (auto& item : mixer->named_parameters())
    if (item.key().find("labels") != std::string::npos) item.value().zero_();
  const auto x = random_normal({1, 17, kWidth}, 5);
  Context context, other;
  const auto y = (*mixer)(x, context);
  for (auto& item : mixer->named_parameters()) {
    if (item.key().find("labels") != std::string::npos)
      item.value().copy_(random_normal({1, 1, 3}, 6).expand_as(item.value()));
    if (item.key().find("label_bias") != std::string::npos) item.value().fill_(2);
  }
  EXPECT_NEAR_TENSOR((*mixer)(x, other), y, tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(other.carry.at("etc"), context.carry.at("etc"), tolerance(at::kDouble));
}

// What goes on is the definition of the global rows, with norm and feed-forward layer.
TEST(Etc, GlobalTokensGoOnToTheNextLayer) {
  for (const std::string options :
       {"{radius: 2, globals: 3, clip: 2, segment: 4, share: none}",
        "{radius: 2, globals: 3, clip: 1, share: side, feed_forward: 5}"}) {
    const auto& row = find_mechanism("etc");
    const auto mixer = made("etc", options);
    const Definition definition(*mixer, row.resolve(parse_yaml(options, "etc")), 2);
    const auto x = random_normal({1, 11, kWidth}, 7);
    const auto keep = (at::arange(11) < 9).unsqueeze(0);
    const auto g = oracle::tensor_of(*mixer, "globals"), all = at::cat({g, x[0]});
    const auto real = at::cat({at::ones({3}, at::kBool), keep[0]});
    std::vector<Tensor> rows;
    for (int64_t a = 0; a < 3; ++a) rows.push_back(definition.read(all, real, a));
    auto want = at::layer_norm(g + at::stack(rows), {kWidth});
    if (options.find("feed_forward") != std::string::npos) {
      const auto fed = [&](const char* name, const Tensor& t) {
        return at::linear(t, oracle::tensor_of(*mixer, std::string(name) + ".weight"),
                          oracle::tensor_of(*mixer, std::string(name) + ".bias"));
      };
      want = at::layer_norm(want + fed("feed_forward.down", at::gelu(fed("feed_forward.up", want))),
                            {kWidth});
    }
    Context context = {.mask = {.keep = keep}};
    (void)(*mixer)(x, context);
    EXPECT_NEAR_TENSOR(context.carry.at("etc")[0], want, tolerance(at::kDouble));

    Context given = context, fresh = {.mask = {.keep = keep}};
    EXPECT_GT(((*mixer)(x, given) - (*mixer)(x, fresh)).abs().max().item<double>(), 1e-3)
        << "the next layer reads what is carried";
  }
}

TEST(Etc, LayersOfAStackHaveOneSequenceOfGlobalTokens) {
  auto site = kSite;
  site.shared = std::make_shared<Shared>();
  const auto first = made("etc", "{globals: 4}", site), second = made("etc", "{globals: 4}", site);
  EXPECT_EQ(site.shared->named_parameters().keys(), std::vector<std::string>{"etc_globals"});
  EXPECT_FALSE(first->named_parameters().contains("globals"));
  EXPECT_EQ(error_of([&] { (void)made("etc", "{globals: 5}", site); }),
            "shared parameter etc_globals is [4, 6], but another layer wants [5, 6]");
  site.shared->to(at::kDouble);
  Context context;
  const auto x = random_normal({1, 9, kWidth}, 8);
  (*second)((*first)(x, context), context).sum().backward();
  EXPECT_GT(site.shared->parameters()[0].grad().abs().sum().item<double>(), 0);
  EXPECT_GT(first->named_parameters()["norm.weight"].grad().abs().sum().item<double>(), 0);
}

TEST(Etc, RefusesWhatItCannotDo) {
  EXPECT_EQ(error_of([] { (void)made("etc", "{globals: 0, feed_forward: 8}"); }),
            "etc options:1: etc.feed_forward is for global tokens, but globals is 0; leave one of "
            "them out");
  EXPECT_EQ(error_of([] { (void)made("etc", "{clip: 0, segment: 8}"); }),
            "etc options:1: etc.segment needs global tokens and labels; set globals and clip above "
            "0");
  Context causal = {.mask = {.causal = true}};
  EXPECT_EQ(error_of([&] {
              (*made("etc", ""))(random_normal({1, 3, kWidth}, 9), causal);
            }).find("etc: is not causal; mechanisms that do: "),
            0u);
  Context named = {.mask = {.globals = at::zeros({1, 1}, at::kLong)}};
  EXPECT_EQ(error_of([&] {
              (*made("etc", ""))(random_normal({1, 3, kWidth}, 9), named);
            }).find("etc: has no global tokens"),
            0u);
}

}  // namespace
}  // namespace longbow
