#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

Tensor unit(const Tensor& x) {
  return x / x.norm(2, -1, true);
}

// The real tokens that are members of each cluster, [clusters, n] of 0 and 1.
Tensor members(const Tensor& rows, const Tensor& centroids, int64_t window) {
  const auto affinity = unit(rows).matmul(centroids.t());  // [n, clusters]
  auto all = at::zeros({centroids.size(0), rows.size(0)}, at::kDouble);
  for (int64_t c = 0; c < centroids.size(0); ++c) {
    const auto best = std::get<1>(affinity.select(1, c).topk(std::min(window, rows.size(0))));
    all[c].index_fill_(0, best, 1);
  }
  return all;
}

// One head over the real tokens of one sequence: loops over clusters and tokens.
Tensor routed(const torch::nn::Module& mixer, const Node& o, int64_t head, const Tensor& q,
              const Tensor& k, const Tensor& v, bool causal) {
  const auto number = [&](const std::string& name) { return as_integer(*o.find(name), name); };
  const bool shared = as_boolean(*o.find("shared"), "shared");
  const int64_t n = q.size(0), memory = number("memory");
  const auto centroids = oracle::tensor_of(mixer, "centroids")[head];
  const auto in_q = members(q, centroids, number("window")),
             in_k = shared ? in_q : members(k, centroids, number("window"));
  const auto keys = shared ? unit(q) : k;
  auto sum = at::zeros_like(q), count = at::zeros({n, 1}, at::kDouble);
  for (int64_t c = 0; c < centroids.size(0); ++c)
    for (int64_t i = 0; i < n; ++i) {
      if (in_q[c][i].item<double>() == 0) continue;
      const auto index = at::arange(n);
      auto seen = causal ? in_k[c] * (index <= i) : in_k[c];
      const auto others = seen * (index != i);
      if (shared && (memory > 0 || others.sum().item<double>() > 0)) seen = others;
      auto all_keys = keys, all_values = v;
      if (memory > 0) {
        all_keys = at::cat({oracle::tensor_of(mixer, "memory_key")[head][c], keys});
        all_values = at::cat({oracle::tensor_of(mixer, "memory_value")[head][c], v});
        seen = at::cat({at::ones({memory}, at::kDouble), seen});
      }
      const auto e =
          (all_keys.matmul(q[i]) / std::sqrt(static_cast<double>(q.size(1)))).exp() * seen;
      sum[i] += e.matmul(all_values) / e.sum().clamp_min(1e-300);
      count[i] += 1;
    }
  return sum / count.clamp_min(1);
}

Tensor local(const Tensor& q, const Tensor& k, const Tensor& v, int64_t window, bool causal) {
  const auto i = at::arange(q.size(0)).unsqueeze(1), j = at::arange(q.size(0)).unsqueeze(0);
  auto seen = (i - j).abs() <= window;
  if (causal) seen = seen.logical_and(j <= i);
  const auto e = (q.matmul(k.t()) / std::sqrt(static_cast<double>(q.size(1)))).exp() * seen;
  return e.matmul(v) / e.sum(-1, true);
}

Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site& site, const Tensor& x,
             const Context& context) {
  const int64_t heads = site.shape.heads,
                local_heads = as_integer(*options.find("local_heads"), "local_heads"),
                window = as_integer(*options.find("local_window"), "local_window");
  const bool shared = as_boolean(*options.find("shared"), "shared");
  const auto projected = [&](const Tensor& t, const std::string& name) {
    return t.matmul(oracle::tensor_of(mixer, name + ".weight").t()) +
           oracle::tensor_of(mixer, name + ".bias");
  };
  const auto split = [&](const std::string& name) {
    return split_heads(projected(x, name), heads);
  };
  const auto q = split("query"), k = shared ? q : split("key"), v = split("value");
  auto y = at::zeros_like(q);
  for (int64_t b = 0; b < x.size(0); ++b) {
    const auto& keep = context.mask.keep;
    const int64_t real = keep.defined() ? keep[b].sum().item<int64_t>() : x.size(1);
    if (real == 0) continue;
    const auto first = [&](const Tensor& t) { return t.narrow(0, 0, real); };
    for (int64_t h = 0; h < heads; ++h) {
      const auto q_h = first(q[b][h]), k_h = first(k[b][h]), v_h = first(v[b][h]);
      first(y[b][h]).copy_(
          h < local_heads
              ? local(q_h, shared ? unit(k_h) : k_h, v_h, window, context.mask.causal)
              : routed(mixer, options, h - local_heads, q_h, k_h, v_h, context.mask.causal));
    }
  }
  return oracle::without_padding(projected(merge_heads(y), "output"), context);
}

const bool registered = oracle::add("routing", dense);

const Site kSite = {.shape = {.width = 6, .heads = 2, .max_length = 32}, .init = "xavier"};

Mixer made(const std::string& name, const std::string& options) {
  auto mixer = make_mixer(name, kSite, options);
  mixer->to(at::kDouble);
  mixer->eval();
  return mixer;
}

void share(const Mixer& from, const Mixer& to) {
  const at::NoGradGuard no_grad;
  for (const std::string name : {"query", "key", "value", "output"})
    for (const std::string kind : {".weight", ".bias"})
      to->named_parameters()[name + kind].copy_(from->named_parameters()[name + kind]);
}

Tensor run(const Mixer& mixer, const Tensor& x, bool causal = false) {
  Context context = {.mask = {.causal = causal}};
  return (*mixer)(x, context);
}

TEST(Routing, OneClusterOfAllTokensIsSoftmaxAttention) {
  const auto routing = made("routing", "{clusters: 1, window: 32, shared: false}"),
             softmax = made("softmax", "");
  share(softmax, routing);
  const auto x = random_normal({2, 11, 6}, 1);
  for (const bool causal : {false, true})
    EXPECT_NEAR_TENSOR(run(routing, x, causal), run(softmax, x, causal), tolerance(at::kDouble));
}

TEST(Routing, ClustersThatDivideTheTokensAreBlocks) {
  const auto routing = made("routing", "{clusters: 3, window: 4, shared: false}"),
             local = made("local", "{window: 4, back: 0, ahead: 0}");
  share(local, routing);
  const auto x = random_normal({2, 12, 6}, 2);
  for (const bool causal : {false, true}) {
    const auto blocks = at::arange(12).view({1, 1, 3, 4}).expand({2, 2, 3, 4});
    Choices choices = {.mode = Choices::Mode::replay,
                       .kept = {{".members_q", blocks}, {".members_k", blocks}}};
    Context context = {.mask = {.causal = causal}, .choices = &choices};
    EXPECT_NEAR_TENSOR((*routing)(x, context), run(local, x, causal), tolerance(at::kDouble));
  }
}

TEST(Routing, ATokenAloneReadsItselfWhereQueriesAreKeys) {
  const auto mixer = made("routing", "{clusters: 1, window: 32}");
  const auto x = random_normal({1, 5, 6}, 3);
  const auto parameters = mixer->named_parameters();
  const auto v =
      at::linear(x.narrow(1, 0, 1), parameters["value.weight"], parameters["value.bias"]);
  EXPECT_NEAR_TENSOR(run(mixer, x, true).narrow(1, 0, 1),
                     at::linear(v, parameters["output.weight"], parameters["output.bias"]),
                     tolerance(at::kDouble));
}

// Unit rows of all queries, [H, B N, D].
Tensor rows_of(const Mixer& mixer, const Tensor& x) {
  const auto parameters = mixer->named_parameters();
  const auto q = at::linear(x, parameters["query.weight"], parameters["query.bias"]).detach();
  return unit(split_heads(q, 2)).transpose(0, 1).flatten(1, 2);
}

TEST(Routing, WithoutDecayAStepIsOneOfKMeans) {
  const auto mixer = made("routing", "{clusters: 3, window: 4, decay: 0}");
  mixer->train();
  const auto x = random_normal({2, 12, 6}, 4);
  const auto rows = rows_of(mixer, x), before = oracle::tensor_of(*mixer, "centroids").clone();
  (void)run(mixer, x);
  EXPECT_NEAR_TENSOR(oracle::tensor_of(*mixer, "centroids"), before, kExact);
  mixer->after_step(0);
  const auto nearest = rows.matmul(before.transpose(1, 2)).argmax(-1);  // [H, B N]
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t c = 0; c < 3; ++c) {
      const auto sum = (rows[h] * (nearest[h] == c).unsqueeze(-1)).sum(0);
      const bool some = (nearest[h] == c).any().item<bool>();
      EXPECT_NEAR_TENSOR(oracle::tensor_of(*mixer, "centroids")[h][c],
                         some ? unit(sum) : before[h][c], tolerance(at::kDouble));
    }
  EXPECT_NEAR_TENSOR(oracle::tensor_of(*mixer, "nearest"), at::zeros({2, 3, 3}), kExact);
}

TEST(Routing, OnlyTrainingMovesCentroidsAndASecondRunAddsNothing) {
  const auto mixer = made("routing", "{clusters: 3, window: 4, decay: 0.5}");
  const auto x = random_normal({2, 12, 6}, 5);
  const auto before = oracle::tensor_of(*mixer, "centroids").clone();
  const auto keeps = [&] {
    return oracle::tensor_of(*mixer, "centroids").equal(before) &&
           oracle::tensor_of(*mixer, "nearest").eq(0).all().item<bool>();
  };
  (void)run(mixer, x);
  mixer->after_step(0);
  EXPECT_TRUE(keeps());
  mixer->train();
  Context again = {.recomputing = true};
  (void)(*mixer)(x, again);
  mixer->after_step(1);
  EXPECT_TRUE(keeps());
  (void)run(mixer, x);
  mixer->after_step(2);
  EXPECT_FALSE(keeps());
  EXPECT_NEAR_TENSOR(oracle::tensor_of(*mixer, "centroids").norm(2, -1), at::ones({2, 3}),
                     tolerance(at::kDouble));
}

TEST(Routing, TheLossIsTheMeanDistanceToTheNearestCentroid) {
  const auto mixer = made("routing", "{clusters: 3, window: 4, commitment: 0.5}");
  const auto x = random_normal({2, 12, 6}, 6);
  const auto rows = rows_of(mixer, x), centroids = oracle::tensor_of(*mixer, "centroids").clone();
  const auto distances =  // [H, B N]
      std::get<0>((rows.unsqueeze(2) - centroids.unsqueeze(1)).square().sum(-1).min(-1));
  Context evaluation;
  (void)(*mixer)(x, evaluation);
  EXPECT_FALSE(evaluation.loss.defined());
  mixer->train();
  Context training;
  (void)(*mixer)(x, training);
  EXPECT_NEAR_TENSOR(training.loss, 0.5 * distances.mean(), tolerance(at::kDouble));
  const auto lax = made("routing", "{commitment: 0}");
  lax->train();
  Context free;
  (void)(*lax)(x, free);
  EXPECT_FALSE(free.loss.defined());
}

// Equal tokens have equal affinities: the first ones are members, however long the row is.
TEST(Routing, OfEqualTokensTheFirstAreMembersWhateverStandsBehind) {
  const auto x = random_normal({1, 5, 6}, 7).repeat({1, 8, 1});
  const auto longer = at::constant_pad_nd(x, {0, 0, 0, 24});
  for (const std::string options : {"{clusters: 3, window: 9}", "{clusters: 2, window: 16}"}) {
    const auto mixer = made("routing", options);
    Context padded = {.mask = {.keep = at::arange(64).unsqueeze(0) < 40}};
    EXPECT_NEAR_TENSOR((*mixer)(longer, padded).narrow(1, 0, 40), run(mixer, x),
                       tolerance(at::kDouble))
        << options;
  }
}

TEST(Routing, NotANumberStaysOne) {
  auto x = random_normal({1, 12, 6}, 8);
  x[0][7].fill_(std::nan(""));
  EXPECT_TRUE(run(made("routing", "{clusters: 3, window: 4}"), x).isnan().any().item<bool>());
}

TEST(Routing, NeedsAHeadToRoute) {
  EXPECT_EQ(error_of([] { made("routing", "{local_heads: 2}"); }),
            "routing options:1: routing.local_heads is 2, but there are 2 heads; leave at least "
            "one to route");
}

}  // namespace
}  // namespace longbow
