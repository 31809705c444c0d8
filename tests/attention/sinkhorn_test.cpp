#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

struct Plan {
  int64_t block, iterations, picks, cut;
  std::string net, mixing;
  double temperature;
  bool own;
};
Plan plan_of(const Node& o) {
  const auto number = [&](const std::string& name) { return as_integer(*o.find(name), name); };
  return {number("block"),
          number("iterations"),
          number("picks"),
          number("cut"),
          as_string(*o.find("net"), "net"),
          as_string(*o.find("mixing"), "mixing"),
          as_number(*o.find("temperature"), "temperature"),
          as_boolean(*o.find("own"), "own")};
}

// One real sequence of one head: q, k, v [n, D], x [n, C]; no token is padded here.
class Sequence {
 public:
  Sequence(const torch::nn::Module& mixer, const Plan& plan, int64_t head, bool causal)
      : mixer_(mixer), plan_(plan), head_(head), causal_(causal) {}

  Tensor operator()(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& x) const {
    const int64_t n = q.size(0), d = q.size(1), b = plan_.block, blocks = (n + b - 1) / b;
    const auto filled = [&](const Tensor& t) {
      return at::constant_pad_nd(t, {0, 0, 0, blocks * b - n}).view({blocks, b, d});
    };
    const auto kb = filled(k), vb = filled(v);
    const auto scores = scored(q, k, x, blocks);
    const auto slots = at::arange(blocks * b).view({blocks, b}) < n;
    auto y = at::zeros({n, d}, at::kDouble);
    for (int64_t u = 0; u < blocks; ++u) {
      std::vector<Tensor> keys, values, seen;
      for (const auto& [weights, possible] : companions(scores, u)) {  // [K] each
        keys.push_back(at::einsum("k,kbd->bd", {weights, kb}));
        values.push_back(at::einsum("k,kbd->bd", {weights, vb}));
        seen.push_back(slots.logical_and(possible.unsqueeze(-1)).any(0));
      }
      for (int64_t i = u * b; i < std::min(n, u * b + b); ++i) {
        auto k_i = keys, v_i = values, seen_i = seen;
        if (plan_.own) {
          k_i.push_back(kb[u]);
          v_i.push_back(vb[u]);
          seen_i.push_back(at::arange(u * b, u * b + b) < (causal_ ? i + 1 : n));
        }
        const auto e =
            (at::cat(k_i).matmul(q[i]) / std::sqrt(static_cast<double>(d))).exp() * at::cat(seen_i);
        y[i] = e.matmul(at::cat(v_i)) / e.sum().clamp_min(1e-300);
      }
    }
    return y;
  }

 private:
  // Weights of the blocks in each companion of block u, and which blocks it could have.
  std::vector<std::pair<Tensor, Tensor>> companions(const Tensor& scores, int64_t u) const {
    const int64_t blocks = scores.size(0);
    const auto index = at::arange(blocks);
    const bool one = sorts_once();
    const auto allowed = causal_ ? index < u : index < blocks;
    const auto softmax = [&](const Tensor& row, const Tensor& left) {
      const auto e = row.exp() * left;
      return e / e.sum().clamp_min(1e-300);
    };
    if (plan_.mixing == "top") {
      std::vector<std::pair<Tensor, Tensor>> all;
      auto left = allowed.clone();
      for (int64_t p = 0; p < std::min(one ? plan_.cut : plan_.picks, blocks); ++p) {
        const auto weights = softmax(scores[u], left);
        const auto best = (index == weights.argmax()).logical_and(left);
        all.emplace_back(weights * best, best);
        left = left.logical_and(best.logical_not());
      }
      return all;
    }
    auto s = scores.exp();
    for (int64_t i = 0; i < plan_.iterations && plan_.mixing == "sinkhorn"; ++i) {
      s = s / s.sum(1, true);
      s = s / s.sum(0, true);
    }
    if (plan_.mixing == "softmax")
      for (int64_t row = 0; row < blocks; ++row)
        s[row] = softmax(scores[row], causal_ ? index < row : allowed);
    if (plan_.cut == 0) return {{s[u], allowed}};
    std::vector<std::pair<Tensor, Tensor>> all;
    for (int64_t row = 0; row < std::min(plan_.cut, blocks); ++row)
      all.emplace_back(s[row], allowed);
    return all;
  }

  bool sorts_once() const { return plan_.cut > 0 && plan_.mixing == "top"; }

  Tensor scored(const Tensor& q, const Tensor& k, const Tensor& x, int64_t blocks) const {
    std::vector<Tensor> rows;
    for (int64_t u = 0; u < blocks; ++u) rows.push_back(row_of(q, k, x, blocks, u, sorts_once()));
    return at::stack(rows) / plan_.temperature;
  }

  Tensor row_of(const Tensor& q, const Tensor& k, const Tensor& x, int64_t blocks, int64_t row,
                bool one) const {
    const int64_t n = q.size(0), b = plan_.block;
    const auto mean = [&](const Tensor& t, int64_t block) {
      return t.narrow(0, block * b, std::min(b, n - block * b)).mean(0);
    };
    const auto summary = [&](const Tensor& t) {
      return causal_ ? t.narrow(0, 0, row * b + 1).mean(0) : one ? t.mean(0) : mean(t, row);
    };
    if (plan_.net == "learned") {
      const auto w = oracle::tensor_of(mixer_, "attention.score")[head_];  // [hidden + 1, longest]
      const int64_t hidden = w.size(0) - 1;
      const auto narrow = [&](const std::string& name) {
        return oracle::tensor_of(mixer_, "attention.summary." + name)
            .narrow(0, head_ * hidden, hidden);
      };
      const auto h = (narrow("weight").matmul(summary(x)) + narrow("bias")).clamp_min(0);
      return (h.matmul(w.narrow(0, 0, hidden)) + w[hidden]).narrow(0, 0, blocks);
    }
    std::vector<Tensor> keys;
    for (int64_t v = 0; v < blocks; ++v) keys.push_back(mean(k, v));
    return at::stack(keys).matmul(summary(q)) / std::sqrt(static_cast<double>(q.size(1)));
  }

  const torch::nn::Module& mixer_;
  Plan plan_;
  int64_t head_;
  bool causal_;
};

// The strided blocks of a sequence of any length, and the sum of all of them.
Tensor official(const Plan& plan, const Tensor& q, const Tensor& k, const Tensor& v,
                const Tensor& visible) {
  const int64_t n = q.size(2), b = std::min(plan.block, n), blocks = (n + b - 1) / b;
  const auto seen = visible.select(2, 0).unsqueeze(-1);  // [B, 1, N, 1]
  auto y = at::zeros_like(q);
  const auto strided = [&](const Tensor& t, int64_t block) {
    std::vector<Tensor> rows;
    for (int64_t i = block; i < blocks * b; i += blocks)
      rows.push_back(i < n ? t.select(2, i) : at::zeros_like(t.select(2, 0)));
    return at::stack(rows, 2);
  };
  const auto sum = [&](const Tensor& t) {
    auto total = strided(t, 0);
    for (int64_t block = 1; block < blocks; ++block) total = total + strided(t, block);
    return total;
  };
  const auto read = [&](const Tensor& query, const Tensor& keys, const Tensor& values,
                        const Tensor& real) {
    return oracle::softmax(query, keys, values, (real > 0).to(at::kDouble).transpose(-2, -1));
  };
  for (int64_t i = 0; i < n; ++i) {
    const auto query = q.narrow(2, i, 1);
    const int64_t block = i % blocks;
    y.narrow(2, i, 1) =
        read(query, strided(k * seen, block), strided(v * seen, block), strided(seen, block)) +
        read(query, sum(k * seen), sum(v * seen), sum(seen));
  }
  return y;
}

Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site& site, const Tensor& x,
             const Context& context) {
  const auto plan = plan_of(options);
  return oracle::multi_head(
      mixer, site, x, context,
      [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&) {
        if (as_boolean(*options.find("official"), "official"))
          return official(plan, q, k, v,
                          oracle::visible({.mask = {.keep = context.mask.keep}}, q.size(0),
                                          q.size(2), k.size(2)));
        auto y = at::zeros_like(q);
        for (int64_t b = 0; b < q.size(0); ++b) {
          const int64_t real =
              context.mask.keep.defined() ? context.mask.keep[b].sum().item<int64_t>() : q.size(2);
          if (real == 0) continue;
          const auto first = [&](const Tensor& t) { return t.narrow(0, 0, real); };
          for (int64_t h = 0; h < q.size(1); ++h)
            first(y[b][h]).copy_(Sequence(mixer, plan, h, context.mask.causal)(
                first(q[b][h]), first(k[b][h]), first(v[b][h]), first(x[b])));
        }
        return y;
      });
}

const bool registered = oracle::add("sinkhorn", dense);

const Site kSite = {.shape = {.width = 6, .heads = 2, .max_length = 32}, .init = "xavier"};

Mixer made(const std::string& name, const std::string& options) {
  auto mixer = make_mixer(name, kSite, options);
  mixer->to(at::kDouble);
  mixer->eval();
  return mixer;
}

Tensor run(const Mixer& mixer, const Tensor& x, bool causal = false) {
  Context context = {.mask = {.causal = causal}};
  return (*mixer)(x, context);
}

void share(const Mixer& from, const Mixer& to) {
  const at::NoGradGuard no_grad;
  for (const std::string name : {"query", "key", "value", "output"})
    for (const std::string kind : {".weight", ".bias"})
      to->named_parameters()[name + kind].copy_(from->named_parameters()[name + kind]);
}

// Scores of block u for block v: large where v = (u + shift) mod K, whatever the tokens.
void permute(const Mixer& mixer, int64_t blocks, int64_t shift) {
  const at::NoGradGuard no_grad;
  auto parameters = mixer->named_parameters();
  parameters["attention.summary.weight"].zero_();
  parameters["attention.summary.bias"].zero_();
  auto score = parameters["attention.score"];
  score.zero_();
  // A hidden unit that is the block's first channel tells the blocks apart.
  parameters["attention.summary.weight"].select(1, 0).fill_(1);
  for (int64_t v = 0; v < blocks; ++v) {
    const auto u = static_cast<double>((v + blocks - shift) % blocks);
    // -(u' - u)^2 = 2 u u' - u^2 - u'^2; what depends on u' alone is the same for all v.
    score.select(2, v).select(1, 0).fill_(2000 * u);
    score.select(2, v).select(1, score.size(1) - 1).fill_(-1000 * u * u);
  }
}

Tensor numbered(int64_t blocks, int64_t block, uint64_t seed) {
  auto x = random_normal({1, blocks * block, 6}, seed);
  x.select(2, 0) = at::arange(blocks * block).floor_divide(block).to(at::kDouble);
  return x;
}

TEST(Sinkhorn, OneBlockIsSoftmaxAttention) {
  const auto softmax = made("softmax", "");
  const auto x = random_normal({2, 9, 6}, 1);
  for (const std::string options : {"", "{mixing: top}", "{mixing: softmax}"}) {
    const auto sinkhorn = made("sinkhorn", options);
    share(softmax, sinkhorn);
    const auto want = run(softmax, x);
    // Both halves of the keys are the same block, each with the same weights.
    EXPECT_NEAR_TENSOR(run(sinkhorn, x), want, tolerance(at::kDouble)) << options;
  }
  const auto causal = made("sinkhorn", "{mixing: softmax}");
  share(softmax, causal);
  EXPECT_NEAR_TENSOR(run(causal, x, true), run(softmax, x, true), tolerance(at::kDouble));
}

TEST(Sinkhorn, TheIdentityIsLocalAttentionWithinBlocks) {
  const auto local = made("local", "{window: 4, back: 0, ahead: 0}");
  const auto x = numbered(4, 4, 2);
  for (const std::string mixing : {"sinkhorn", "softmax", "top"}) {
    const auto sinkhorn =
        made("sinkhorn", "{block: 4, net: learned, hidden: 1, mixing: " + mixing + "}");
    share(local, sinkhorn);
    permute(sinkhorn, 4, 0);
    EXPECT_NEAR_TENSOR(run(sinkhorn, x), run(local, x), tolerance(at::kDouble)) << mixing;
  }
}

TEST(Sinkhorn, APermutationIsAttentionToTheOwnBlockAndItsCompanion) {
  const auto x = numbered(4, 4, 3);
  const auto sinkhorn = made("sinkhorn", "{block: 4, net: learned, hidden: 1}"),
             softmax = made("softmax", "");
  share(sinkhorn, softmax);
  permute(sinkhorn, 4, 1);
  const auto y = run(sinkhorn, x);
  for (int64_t u = 0; u < 4; ++u) {
    Context context = {.mask = {.keep = at::zeros({1, 16}, at::kBool)}};
    context.mask.query_keep = at::ones({1, 16}, at::kBool);
    context.mask.keep.narrow(1, 4 * u, 4).fill_(true);
    context.mask.keep.narrow(1, 4 * ((u + 1) % 4), 4).fill_(true);
    EXPECT_NEAR_TENSOR(y.narrow(1, 4 * u, 4), (*softmax)(x, context).narrow(1, 4 * u, 4),
                       tolerance(at::kDouble));
  }
}

TEST(Sinkhorn, ACutOfAllBlocksWithoutTheOwnIsSoftmaxAttention) {
  const auto x = numbered(4, 4, 4);
  const auto sinkhorn = made("sinkhorn", "{block: 4, net: learned, hidden: 1, cut: 4, own: false}"),
             softmax = made("softmax", "");
  share(sinkhorn, softmax);
  permute(sinkhorn, 4, 1);
  EXPECT_NEAR_TENSOR(run(sinkhorn, x), run(softmax, x), tolerance(at::kDouble));
}

TEST(Sinkhorn, NoiseIsOfTrainingAndCanBeInjected) {
  const auto mixer = made("sinkhorn", "{block: 4}");
  const auto x = random_normal({2, 12, 6}, 5);
  const auto quiet = run(mixer, x);
  mixer->train();
  const auto noisy = [&](double size) {
    Choices choices = {.mode = Choices::Mode::replay};
    choices.kept[".noise"] = size * random_normal({2, 2, 3, 3}, 6);
    Context context = {.choices = &choices};
    return (*mixer)(x, context);
  };
  EXPECT_NEAR_TENSOR(noisy(0), quiet, kExact);
  EXPECT_FALSE(noisy(1).allclose(quiet));
}

TEST(Sinkhorn, IsCausalUnlessColumnsOrAllRowsAreNormalised) {
  const auto future = [](const std::string& options) {
    return made("sinkhorn", options)->promises().future;
  };
  EXPECT_EQ(future(""), Future::refused);
  EXPECT_EQ(future("{mixing: softmax}"), Future::exact);
  EXPECT_EQ(future("{mixing: top}"), Future::exact);
  EXPECT_EQ(future("{mixing: top, cut: 2}"), Future::refused);
}

TEST(Sinkhorn, RefusesWhatItCannotBuildOrHold) {
  EXPECT_EQ(error_of([] { made("sinkhorn", "{own: false}"); }),
            "sinkhorn options:1: sinkhorn.own is false, but without cut each block has its own "
            "part; set cut, or leave it out");
  EXPECT_EQ(error_of([] {
              make_mixer("sinkhorn", {.shape = {.width = 6, .heads = 2}}, "{net: learned}");
            }),
            "sinkhorn: net learned needs the longest sequence; set max_length");
  EXPECT_EQ(error_of([] {
              run(made("sinkhorn", "{net: learned, block: 8}"), at::zeros({1, 33, 6}, at::kDouble));
            }),
            "sinkhorn: 5 blocks, but max_length has 4");
}

}  // namespace
}  // namespace longbow
