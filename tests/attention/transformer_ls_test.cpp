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
  Options(const Node& node, const Site& site)
      : window(integer(node, "window")),
        rank(integer(node, "rank")),
        chunk(integer(node, "chunk")),
        taps(integer(node, "convolution")),
        norm(as_boolean(*node.find("dual_norm"), "dual_norm")),
        cls(as_boolean(*node.find("cls"), "cls")) {
    if (chunk > 0 || rank == 0) return;
    const auto rows = static_cast<double>(rank * site.shape.max_length);
    chunk = std::max(window, static_cast<int64_t>(std::ceil(std::sqrt(rows))));
  }
  static int64_t integer(const Node& node, const char* key) {
    return as_integer(*node.find(key), key);
  }
  int64_t window, rank, chunk, taps;
  bool norm, cls;
};

// The definition for one row of a batch, token by token: x [N, C], q, k, v [H, N, D] -> [H, N, D].
struct Definition {
  const torch::nn::Module& mixer;
  Options options;
  Tensor x, keep;  // [N] of 0 and 1
  bool causal;

  Tensor norm(const std::string& name, const Tensor& rows) const {  // [H, M, D]
    if (!options.norm) return rows;
    const auto flat = rows.transpose(0, 1).flatten(1);
    return at::layer_norm(flat, {flat.size(1)},
                          oracle::tensor_of(mixer, "attention." + name + ".weight"),
                          oracle::tensor_of(mixer, "attention." + name + ".bias"))
        .view({rows.size(1), rows.size(0), rows.size(2)})
        .transpose(0, 1);
  }

  // sum_j Pi_rj rows_j over the real tokens from `first` on: [H, R, D].
  Tensor projected(const Tensor& rows, int64_t first, int64_t count) const {
    const auto logits = x.narrow(0, first, count)
                            .matmul(oracle::tensor_of(mixer, "attention.projection").t())
                            .view({count, rows.size(0), options.rank})
                            .permute({1, 2, 0});  // [H, R, N]
    const auto weights =
        (logits - logits.amax(-1, true)).exp() * keep.narrow(0, first, count).view({1, 1, count});
    return (weights / weights.sum(-1, true).clamp_min(1e-300)).matmul(rows.narrow(1, first, count));
  }

  bool near(int64_t i, int64_t j) const {
    const int64_t w = options.window, side = std::max<int64_t>(w / 2, 1);
    if (causal) return j <= i && j > i - std::max(w, options.chunk);
    return j >= i / w * w - side && j < i / w * w + w + side;
  }

  Tensor operator()(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& cls_k,
                    const Tensor& cls_v) const {
    const int64_t n = q.size(1);
    const auto near_k = norm("window_norm", k), near_v = norm("window_norm", v);
    auto y = at::zeros_like(q);
    for (int64_t i = 0; i < n; ++i) {
      std::vector<Tensor> far_k, far_v;
      if (cls_k.defined()) {
        far_k.push_back(cls_k);
        far_v.push_back(cls_v);
      }
      if (options.rank > 0 && !causal) {
        far_k.push_back(projected(near_k, 0, n));
        far_v.push_back(projected(near_v, 0, n));
      }
      if (options.rank > 0 && causal)
        for (int64_t c = 0; c < i / options.chunk; ++c) {
          far_k.push_back(projected(k, c * options.chunk, options.chunk));
          far_v.push_back(projected(v, c * options.chunk, options.chunk));
        }
      std::vector<Tensor> keys, values;
      if (!far_k.empty()) {
        keys.push_back(norm("rank_norm", at::cat(far_k, 1)));
        values.push_back(norm("rank_norm", at::cat(far_v, 1)));
      }
      for (int64_t j = 0; j < n; ++j)
        if (near(i, j) && keep[j].item<double>() > 0) {
          keys.push_back(near_k.narrow(1, j, 1));
          values.push_back(near_v.narrow(1, j, 1));
        }
      if (keys.empty()) continue;
      const auto all = at::cat(keys, 1).unsqueeze(0);
      y.narrow(1, i, 1).copy_(oracle::softmax(q.narrow(1, i, 1).unsqueeze(0), all,
                                              at::cat(values, 1).unsqueeze(0),
                                              at::ones({1, 1, 1, all.size(2)}, at::kDouble))[0]);
    }
    return y;
  }

  // sum_k a_k v_{t + k - left} over the real tokens.
  Tensor convolved(const Tensor& v) const {
    const auto rows = norm("window_norm", v) * keep.view({1, -1, 1});
    const auto taps = oracle::tensor_of(mixer, "attention.taps");
    const int64_t left = causal ? options.taps - 1 : (options.taps - 1) / 2;
    auto y = at::zeros_like(v);
    for (int64_t t = 0; t < v.size(1); ++t)
      for (int64_t k = 0; k < options.taps; ++k)
        if (t + k - left >= 0 && t + k - left < v.size(1))
          y.select(1, t).add_(taps.select(1, k).unsqueeze(-1) * rows.select(1, t + k - left));
    return y;
  }

  Tensor with_cls(const Tensor& q, const Tensor& k, const Tensor& v) const {
    const int64_t n = q.size(1) - 1;
    const auto first = [](const Tensor& t) { return t.narrow(1, 0, 1); };
    if (n == 0) return v;
    const auto rest = [&](const Tensor& t) { return t.narrow(1, 1, n); };
    const Definition inner = {mixer, options, x.narrow(0, 1, n), keep.narrow(0, 1, n), causal};
    const auto y = inner(rest(q), rest(k), rest(v), first(k), first(v));
    const auto row =
        oracle::softmax(first(q).unsqueeze(0), at::cat({first(k), y}, 1).unsqueeze(0),
                        at::cat({first(v), y}, 1).unsqueeze(0), keep.view({1, 1, 1, n + 1}))[0];
    return at::cat({row, options.taps > 0 ? y + inner.convolved(rest(v)) : y}, 1);
  }
};

const bool registered =
    oracle::add("transformer_ls", [](const torch::nn::Module& mixer, const Node& node,
                                     const Site& site, const Tensor& x, const Context& context) {
      return oracle::multi_head(
          mixer, site, x, context,
          [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&) {
            const Options options(node, site);
            const auto& keep = context.mask.keep;
            std::vector<Tensor> rows;
            for (int64_t b = 0; b < x.size(0); ++b) {
              const Definition definition = {
                  mixer, options, x[b].to(at::kDouble),
                  keep.defined() ? keep[b].to(at::kDouble) : at::ones({x.size(1)}, at::kDouble),
                  context.mask.causal};
              if (options.cls) {
                rows.push_back(definition.with_cls(q[b], k[b], v[b]));
                continue;
              }
              const auto y = definition(q[b], k[b], v[b], {}, {});
              rows.push_back(options.taps > 0 ? y + definition.convolved(v[b]) : y);
            }
            return at::stack(rows);
          });
    });

Mixer made(const std::string& name, const std::string& options) {
  auto mixer = make_mixer(name, kSite, options);
  mixer->to(at::kDouble);
  return mixer;
}

TEST(TransformerLs, AWindowOverEverythingWithoutRowsAndNormsIsSoftmax) {
  const auto x = random_normal({2, 30, kWidth}, 1);
  for (const bool causal : {false, true}) {
    Context context = {.mask = {.causal = causal}};
    EXPECT_NEAR_TENSOR(
        (*made("transformer_ls", "{window: 30, rank: 0, dual_norm: false}"))(x, context),
        (*made("softmax", ""))(x, context), tolerance(at::kDouble));
  }
}

// Logits that are all the same make every row the mean of keys and of values; these reads are the
// same for all queries.
TEST(TransformerLs, ConstantLogitsProjectToTheMean) {
  const at::NoGradGuard no_grad;
  const auto mixer = made("transformer_ls", "{window: 1, rank: 1, dual_norm: false}");
  for (auto& item : mixer->named_parameters())
    if (item.key() == "attention.projection" || item.key() == "query.weight") item.value().zero_();
  const auto x = random_normal({1, 9, kWidth}, 2);
  Context context;
  const auto weight = [&](const char* name) { return oracle::tensor_of(*mixer, name).t(); };
  const auto v = x.matmul(weight("value.weight"));
  const auto mean = v.mean(1, true);
  // Token 4 reads tokens 3, 4, 5 and the mean, each with the same weight.
  const auto want = (v.narrow(1, 3, 3).sum(1, true) + mean) / 4;
  EXPECT_NEAR_TENSOR((*mixer)(x, context).narrow(1, 4, 1), want.matmul(weight("output.weight")),
                     tolerance(at::kDouble));
}

// One row for each token, which logits far apart assign to it, in place of a window: full
// attention, but for the window of three tokens that is read besides.
TEST(TransformerLs, ARowForEachTokenIsFullAttention) {
  const at::NoGradGuard no_grad;
  constexpr int64_t kTokens = kWidth;
  auto site = kSite;
  site.shape.heads = 1;
  const auto make = [&](const std::string& name, const std::string& options) {
    auto mixer = make_mixer(name, site, options);
    mixer->to(at::kDouble);
    return mixer;
  };
  const auto mixer = make("transformer_ls", "{window: 1, rank: 6, dual_norm: false}");
  const auto x = at::eye(kTokens, at::kDouble).unsqueeze(0);
  for (auto& item : mixer->named_parameters())
    if (item.key() == "attention.projection") item.value().copy_(at::eye(kTokens) * 1000);
  const auto q = x.matmul(oracle::tensor_of(*mixer, "query.weight").t()),
             k = x.matmul(oracle::tensor_of(*mixer, "key.weight").t()),
             v = x.matmul(oracle::tensor_of(*mixer, "value.weight").t());
  auto count = at::ones({kTokens, kTokens}, at::kDouble);  // a token near by counts twice
  for (int64_t i = 0; i < kTokens; ++i)
    for (int64_t j = std::max<int64_t>(i - 1, 0); j <= std::min(i + 1, kTokens - 1); ++j)
      count[i][j] = 2;
  const auto weights = (q.matmul(k.transpose(1, 2)) / std::sqrt(6.0)).exp() * count;
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(x, context),
                     (weights / weights.sum(-1, true))
                         .matmul(v)
                         .matmul(oracle::tensor_of(*mixer, "output.weight").t()),
                     tolerance(at::kDouble));
}

TEST(TransformerLs, TheStateIsARingAndTheRowsOfEachChunk) {
  const auto mixer = made("transformer_ls", "{window: 8, rank: 2, chunk: 4}");
  State state;
  Context context;
  mixer->start(state, 3, 100, context);
  EXPECT_EQ(state.lane.at("keys").sizes(), at::IntArrayRef({3, 2, 8 + 1, 3}));
  EXPECT_EQ(state.lane.at("chunk_keys").sizes(), at::IntArrayRef({3, 2, 25 + 1, 2 * 3}));
}

// 16 rows of sequences of up to 64 tokens: sqrt(16 64) = 32.
TEST(TransformerLs, ChunksThatAreNotGivenAreAsLongAsTheRowsBeforeThem) {
  const auto slots = [](const std::string& options) {
    State state;
    Context context;
    made("transformer_ls", options)->start(state, 1, 1000, context);
    return std::pair(state.lane.at("keys").size(2) - 1, state.lane.at("chunk_max").size(2) - 1);
  };
  EXPECT_EQ(slots("{window: 8, rank: 16}"), std::pair(int64_t{32}, int64_t{32}));
  EXPECT_EQ(slots("{window: 50, rank: 16}"), std::pair(int64_t{50}, int64_t{20}));
}

TEST(TransformerLs, RefusesWhatItCannotDo) {
  EXPECT_EQ(error_of([] { (void)made("transformer_ls", "{window: 8, chunk: 9}"); }),
            "transformer_ls options:1: transformer_ls.chunk is 9, but a window of 8 would miss "
            "tokens of the query's own chunk; take at most the window");
  const auto x = random_normal({1, 3, kWidth}, 5);
  Context causal = {.mask = {.causal = true}};
  EXPECT_EQ(error_of([&] {
              (*made("transformer_ls", "{cls: true}"))(x, causal);
            }).find("transformer_ls: is not causal; mechanisms that do: "),
            0u);
  Context crossing = {.memory = random_normal({1, 4, kWidth}, 4)};
  EXPECT_EQ(error_of([&] {
              (*made("transformer_ls", ""))(x, crossing);
            }).find("transformer_ls: cannot attend to a memory; mechanisms that do: "),
            0u);
}

}  // namespace
}  // namespace longbow
