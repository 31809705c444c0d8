#include <ATen/ATen.h>

#include <cmath>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 6;
const Site kSite = {.shape = {.width = kWidth, .heads = 2, .max_length = 64}, .init = "xavier"};

struct Options {
  bool sum;
  std::string axes;
  int64_t columns, span;
};
Options options_of(const Node& node, const Site& site) {
  const int64_t columns = as_integer(*node.find("columns"), "columns");
  const auto root = std::ceil(std::sqrt(static_cast<double>(site.shape.max_length)));
  return {as_string(*node.find("combine"), "combine") == "sum",
          as_string(*node.find("axes"), "axes"), columns > 0 ? columns : static_cast<int64_t>(root),
          as_integer(*node.find("span"), "span")};
}

// Attention with the projections called `name` between all tokens, pair by pair: query i reads key
// j where apart(i, j) says how many cells away it is, not where it says nothing.
using Apart = std::function<std::optional<int64_t>(int64_t i, int64_t j)>;
Tensor attention(const torch::nn::Module& mixer, const std::string& name, int64_t heads,
                 int64_t span, const Tensor& x, const Tensor& keep, const Apart& apart) {
  const auto projected = [&](const std::string& which, const Tensor& t) {
    const auto prefix = name + "." + which;
    return at::linear(t, oracle::tensor_of(mixer, prefix + ".weight"),
                      oracle::tensor_of(mixer, prefix + ".bias"));
  };
  const auto split = [&](const std::string& which) {
    return split_heads(projected(which, x), heads);
  };
  const auto q = split("query"), k = split("key"), v = split("value");
  auto y = at::zeros_like(q);
  for (int64_t b = 0; b < x.size(0); ++b)
    for (int64_t i = 0; i < x.size(1); ++i) {
      std::vector<Tensor> scores, values;
      for (int64_t j = 0; j < x.size(1); ++j) {
        const auto away = apart(i, j);
        if (!away || !keep[b][j].item<bool>() || (span > 0 && std::abs(*away) > span)) continue;
        auto key = k[b].select(1, j), value = v[b].select(1, j), query = q[b].select(1, i);
        auto score = (query * key).sum(-1);
        if (span > 0) {
          const auto row = [&](const char* table) {
            return oracle::tensor_of(mixer, name + "." + table)[*away + span];
          };
          score = score + (query * row("to_query")).sum(-1) + (key * row("to_key")).sum(-1);
          value = value + row("to_value");
        }
        scores.push_back(score / std::sqrt(static_cast<double>(q.size(3))));
        values.push_back(value);
      }
      if (scores.empty()) continue;
      const auto weights = at::stack(scores).softmax(0).unsqueeze(-1);
      y[b].select(1, i).copy_((weights * at::stack(values)).sum(0));
    }
  return projected("output", merge_heads(y));
}

const bool registered =
    oracle::add("axial", [](const torch::nn::Module& mixer, const Node& node, const Site& site,
                            const Tensor& x, const Context& context) {
      const auto options = options_of(node, site);
      const int64_t w = options.columns, n = x.size(1);
      const auto keep =
          context.mask.keep.defined() ? context.mask.keep : at::ones({x.size(0), n}, at::kBool);
      const auto along = [&](const std::string& name, const Tensor& t, bool causal) {
        const bool rows = name == "row";
        return attention(mixer, name, site.shape.heads, options.span, t, keep,
                         [=](int64_t i, int64_t j) -> std::optional<int64_t> {
                           const bool line = rows ? i / w == j / w : i % w == j % w;
                           if (!line || (causal && j > i)) return {};
                           return rows ? j - i : j / w - i / w;
                         });
      };
      const bool causal = context.mask.causal;
      const auto token = x.to(at::kDouble);
      const auto combined = [&] {
        if (options.axes == "rows") return along("row", token, causal);
        if (options.axes == "columns") return along("column", token, causal);
        if (options.sum) return along("row", token, causal) + along("column", token, causal);
        if (!causal) return along("row", along("column", token, false), false);
        const auto above = along("column", along("row", token, false), true);
        auto moved = at::zeros_like(token);
        if (n > w) moved.narrow(1, w, n - w).copy_(above.narrow(1, 0, n - w));
        return along("row", token + moved, true);
      };
      return oracle::without_padding(combined(), context);
    });

Mixer made(const std::string& name, const std::string& options, const Site& site = kSite) {
  auto mixer = make_mixer(name, site, options);
  mixer->to(at::kDouble);
  return mixer;
}

void copy_line(const Mixer& to, const std::string& to_name, const Mixer& from,
               const std::string& from_name) {
  const at::NoGradGuard no_grad;
  auto target = to->named_parameters();
  for (const auto& item : from->named_parameters())
    if (item.key().rfind(from_name, 0) == 0)
      target[to_name + item.key().substr(from_name.size())].copy_(item.value());
}

TEST(Axial, ASingleRowIsSoftmax) {
  const auto x = random_normal({2, 20, kWidth}, 1);
  const auto mixer = made("axial", "{axes: rows, columns: 20}"), softmax = made("softmax", "");
  copy_line(mixer, "row.", softmax, "");
  for (const bool causal : {false, true}) {
    Context context = {.mask = {.causal = causal}};
    EXPECT_NEAR_TENSOR((*mixer)(x, context), (*softmax)(x, context), tolerance(at::kDouble));
  }
}

TEST(Axial, AColumnOfOneRowGivesTheValues) {
  const auto x = random_normal({1, 5, kWidth}, 2);
  const auto mixer = made("axial", "{axes: columns, columns: 5}");
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(x, context),
                     x.matmul(oracle::tensor_of(*mixer, "column.value.weight").t())
                         .matmul(oracle::tensor_of(*mixer, "column.output.weight").t()),
                     tolerance(at::kDouble));
}

TEST(Axial, WithoutQueriesRowsOfColumnsAreTheGlobalMean) {
  const at::NoGradGuard no_grad;
  auto site = kSite;
  site.shape.grid = {4, 5};
  const auto mixer = made("axial", "", site);
  for (auto& item : mixer->named_parameters())
    if (item.key().find("weight") != std::string::npos)
      item.value().copy_(item.key().find("query") != std::string::npos ? at::zeros({kWidth, kWidth})
                                                                       : at::eye(kWidth));
  const auto x = random_normal({2, 20, kWidth}, 3);
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(x, context), x.mean(1, true).expand_as(x), tolerance(at::kDouble));
}

TEST(Axial, ATurnedGridWithSwappedAxesIsTurned) {
  for (const auto* options : {"combine: sum", "combine: sum, span: 2"}) {
    const auto mixer = made("axial", std::string("{columns: 5, ") + options + "}"),
               other = made("axial", std::string("{columns: 4, ") + options + "}");
    copy_line(other, "row.", mixer, "column.");
    copy_line(other, "column.", mixer, "row.");
    const auto x = random_normal({2, 20, kWidth}, 4);
    const auto turned = [](const Tensor& t, int64_t columns) {
      return t.unflatten(1, {-1, columns}).transpose(1, 2).flatten(1, 2);
    };
    Context context;
    EXPECT_NEAR_TENSOR(turned((*other)(turned(x, 5), context), 4), (*mixer)(x, context),
                       tolerance(at::kDouble));
  }
}

// Which inputs move output i.
std::vector<int64_t> read_by(const Mixer& mixer, int64_t i) {
  const auto x = random_normal({1, 12, kWidth}, 5).requires_grad_();
  Context context = {.mask = {.causal = true}};
  (*mixer)(x, context)[0][i].sum().backward();
  std::vector<int64_t> tokens;
  for (int64_t j = 0; j < 12; ++j)
    if (x.grad()[0][j].abs().max().item<double>() > 0) tokens.push_back(j);
  return tokens;
}

TEST(Axial, TheCausalFormReadsEverythingBeforeAToken) {
  EXPECT_EQ(read_by(made("axial", "{columns: 4}"), 9),
            (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(read_by(made("axial", "{columns: 4, combine: sum}"), 9),
            (std::vector<int64_t>{1, 5, 8, 9}));
}

TEST(Axial, TheGridIsThatOfTheImageOrTheRootOfTheLength) {
  const auto slots = [](const Site& site, const std::string& options) {
    State state;
    Context context;
    made("axial", options, site)->start(state, 1, 100, context);
    return state.lane.at("row_keys").size(2) - 1;
  };
  auto image = kSite;
  image.shape.grid = {4, 10};
  EXPECT_EQ(slots(kSite, "{combine: sum}"), 2 * 8);
  EXPECT_EQ(slots(image, "{combine: sum}"), 2 * 10);
  EXPECT_EQ(slots(image, "{combine: sum, columns: 5}"), 2 * 5);
}

TEST(Axial, RefusesWhatItCannotDo) {
  auto site = kSite;
  site.shape.grid = {2, 3, 4};
  EXPECT_EQ(error_of([&] { (void)made("axial", "{}", site); }),
            "axial options:1: axial.columns is not given, and the tokens are an image with 3 "
            "sides; give the tokens in a row");
  site.shape.grid = {};
  site.shape.max_length = 0;
  EXPECT_EQ(error_of([&] {
              (void)made("axial", "", site);
            }).find("axial: needs columns, or the model's max_length"),
            0u);
  State state;
  Context context;
  EXPECT_EQ(error_of([&] {
              made("axial", "")->start(state, 1, 8, context);
            }).find("axial: has no decoding state; mechanisms that do: "),
            0u);
}

}  // namespace
}  // namespace longbow
