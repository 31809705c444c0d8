#include <ATen/ATen.h>

#include <numeric>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 8;
const Site kSite = {.shape = {.width = kWidth, .heads = 2, .max_length = 64}, .init = "xavier"};

struct Options {
  int64_t chunk, rounds, back, ahead;
  std::vector<int64_t> buckets;
  bool scaled, same_bucket, deduplicate, ring;
  double epsilon;
};
Options read_options(const Node& node) {
  const auto integer = [&](const char* key) { return as_integer(*node.find(key), key); };
  const auto is = [&](const char* key) { return as_boolean(*node.find(key), key); };
  Options o = {integer("chunk"),
               integer("rounds"),
               integer("back"),
               integer("ahead"),
               {},
               is("scaled"),
               is("same_bucket"),
               is("deduplicate"),
               is("ring"),
               as_number(*node.find("epsilon"), "")};
  for (const auto& n : node.find("buckets")->items) o.buckets.push_back(as_integer(n, "buckets"));
  return o;
}

// [H, rounds, N] by the definition, of s [H, N, D]: the first of the largest directions.
Tensor buckets_of(const Options& o, const Tensor& s, const Tensor& rotations, int64_t longest) {
  auto factors = o.buckets;
  if (factors.empty()) {
    int64_t all = 1;
    while (all < 2 * ((longest + o.chunk - 1) / o.chunk)) all *= 2;
    factors = {all};
    if (all > 16) {
      int64_t first = 1;
      while (first * first * 4 <= all) first *= 2;
      factors = {first, all / first};
    }
  }
  auto result = at::zeros({s.size(0), o.rounds, s.size(1)}, at::kLong);
  for (int64_t r = 0; r < o.rounds; ++r) {
    int64_t column = 0, all = 1;
    for (const int64_t factor : factors) {
      const auto turned = s.matmul(rotations.select(1, r).narrow(2, column, factor / 2));
      result.select(1, r) += at::cat({turned, -turned}, 2).argmax(2) * all;
      column += factor / 2;
      all *= factor;
    }
  }
  return result;
}

// How often i reads j in all rounds, [N, N]; buckets [rounds, N], those of padded tokens are last.
Tensor times_read(const Options& o, const Tensor& buckets, const std::vector<bool>& real,
                  bool causal) {
  const int64_t n = buckets.size(1), chunk = std::min(o.chunk, n), chunks = (n + chunk - 1) / chunk;
  auto times = at::zeros({n, n}, at::kDouble);
  auto* count = times.data_ptr<double>();
  std::vector<std::vector<std::vector<int64_t>>> held;  // by round and chunk
  for (int64_t r = 0; r < o.rounds; ++r) {
    std::vector<int64_t> order(static_cast<size_t>(n)), key(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    for (int64_t t = 0; t < n; ++t)
      key[static_cast<size_t>(t)] =
          real[static_cast<size_t>(t)] ? buckets[r][t].item<int64_t>() : int64_t{1} << 40;
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return key[static_cast<size_t>(a)] < key[static_cast<size_t>(b)];
    });
    std::vector<std::vector<int64_t>> all(static_cast<size_t>(chunks));
    for (int64_t p = 0; p < n; ++p)
      all[static_cast<size_t>(p / chunk)].push_back(order[static_cast<size_t>(p)]);
    held.push_back(all);
  }
  const int64_t total = chunks * o.rounds;
  for (int64_t r = 0; r < o.rounds; ++r)
    for (int64_t c = 0; c < chunks; ++c)
      for (int64_t d = -o.back; d <= o.ahead; ++d) {
        int64_t other_round = r, other = c + d;
        if (o.ring) {
          if (d > 0 && d + o.back >= total) continue;  // around the ring already
          const int64_t place = ((r * chunks + c + d) % total + total) % total;
          other_round = place / chunks, other = place % chunks;
          if (total <= o.back && d != 0) continue;
        } else if (other < 0 || other >= chunks) {
          continue;
        }
        for (const int64_t i : held[static_cast<size_t>(r)][static_cast<size_t>(c)])
          for (const int64_t j :
               held[static_cast<size_t>(other_round)][static_cast<size_t>(other)]) {
            const bool same =
                buckets[r][i].item<int64_t>() == buckets[other_round][j].item<int64_t>();
            if (i == j || !real[static_cast<size_t>(j)] || (causal && j > i) ||
                (o.same_bucket && !same))
              continue;
            count[i * n + j] += 1;
          }
      }
  return o.deduplicate ? times.clamp_max(1) : times;
}

Tensor reformer(const torch::nn::Module& mixer, const Node& node, const Site& site, const Tensor& x,
                const Context& context) {
  const auto o = read_options(node);
  const int64_t heads = site.shape.heads, n = x.size(1), d = site.shape.head();
  const auto project = [&](const std::string& name) {
    auto y = x.matmul(oracle::tensor_of(mixer, name + ".weight").t());
    if (site.bias) y = y + oracle::tensor_of(mixer, name + ".bias");
    return split_heads(y, heads);
  };
  const auto s = project("query"), v = project("value");
  const auto k = s / (s.pow(2).sum(-1, true) + static_cast<double>(d) * o.epsilon).sqrt();
  const auto weights = (s.matmul(k.transpose(-2, -1)) / (o.scaled ? std::sqrt(d) : 1)).exp();
  auto y = at::zeros_like(v);
  for (int64_t b = 0; b < x.size(0); ++b) {
    std::vector<bool> real(static_cast<size_t>(n), true);
    for (int64_t t = 0; t < n && context.mask.keep.defined(); ++t)
      real[static_cast<size_t>(t)] = context.mask.keep[b][t].item<bool>();
    const auto buckets =
        buckets_of(o, s[b], oracle::tensor_of(mixer, "rotations"), site.shape.max_length);
    for (int64_t h = 0; h < heads; ++h) {
      const auto w = weights[b][h] * times_read(o, buckets[h], real, context.mask.causal);
      const auto sum = w.sum(1, true);
      y[b][h] = at::where(sum > 0, w.matmul(v[b][h]) / sum.clamp_min(1e-300), v[b][h]);
    }
  }
  auto out = merge_heads(y).matmul(oracle::tensor_of(mixer, "output.weight").t());
  if (site.bias) out = out + oracle::tensor_of(mixer, "output.bias");
  return oracle::without_padding(out, context);
}
const bool registered = oracle::add("reformer", reformer);

Mixer made(const std::string& options, const Site& site = kSite) {
  auto mixer = make_mixer("reformer", site, options);
  mixer->to(at::kDouble);
  mixer->eval();
  return mixer;
}
Tensor defined_by(const Mixer& mixer, const std::string& options, const Tensor& x,
                  const Context& context) {
  return reformer(*mixer, find_mechanism("reformer").resolve(parse_yaml(options, "options")), kSite,
                  x, context);
}

// One chunk is shared-query attention to all others, whatever the hash and the rounds.
TEST(Reformer, OneChunkIsAttentionToAllOthers) {
  const auto x = random_normal({2, 30, kWidth}, 1);
  for (const bool causal : {false, true}) {
    Context context = {.mask = {.causal = causal}};
    const auto one = (*made("{chunk: 30, rounds: 1}"))(x, context);
    const auto mixer = made("{chunk: 64, rounds: 3}");
    EXPECT_NEAR_TENSOR((*mixer)(x, context), one, tolerance(at::kDouble));
    const auto s = split_heads(x.matmul(oracle::tensor_of(*mixer, "query.weight").t()), 2),
               v = split_heads(x.matmul(oracle::tensor_of(*mixer, "value.weight").t()), 2);
    const auto k = s / (s.pow(2).sum(-1, true) + 4e-6).sqrt();
    auto visible = at::ones({30, 30}, at::kDouble).sub(at::eye(30, at::kDouble));
    if (causal) visible = visible.tril();
    auto w = s.matmul(k.transpose(-2, -1)).exp() * visible;
    if (causal) w.select(2, 0).select(2, 0).fill_(1);  // the first token has no other
    const auto want = merge_heads((w / w.sum(-1, true)).matmul(v))
                          .matmul(oracle::tensor_of(*mixer, "output.weight").t());
    EXPECT_NEAR_TENSOR(one, want, tolerance(at::kDouble));
  }
}

// Without duplicates, rounds together are one softmax over all keys that any of them shows.
TEST(Reformer, DeduplicatedRoundsAreASoftmaxOverTheUnion) {
  const auto options = "{chunk: 4, rounds: 4, deduplicate: true}";
  const auto mixer = made(options);
  const auto x = random_normal({1, 40, kWidth}, 2);
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(x, context), defined_by(mixer, options, x, context),
                     tolerance(at::kDouble));
}

// The same hash again and again adds nothing.
TEST(Reformer, EqualRoundsAreOne) {
  const auto x = random_normal({1, 40, kWidth}, 3);
  const auto one = made("{chunk: 4, rounds: 1}"), three = made("{chunk: 4, rounds: 3}");
  {
    const at::NoGradGuard no_grad;
    three->named_buffers()["rotations"].copy_(
        one->named_buffers()["rotations"].expand({-1, 3, -1, -1}));
  }
  Context context;
  EXPECT_NEAR_TENSOR((*three)(x, context), (*one)(x, context), tolerance(at::kDouble));
}

TEST(Reformer, ManyBucketsAreHashedInTwoSteps) {
  const auto columns = [](int64_t longest) {
    auto site = kSite;
    site.shape.max_length = longest;
    return made("{chunk: 64}", site)->named_buffers()["rotations"].size(3);
  };
  EXPECT_EQ(columns(64), 1);           // 2 buckets
  EXPECT_EQ(columns(512), 8);          // 16
  EXPECT_EQ(columns(2048), 4 + 4);     // 64 = 8 x 8
  EXPECT_EQ(columns(4096), 4 + 8);     // 128 = 8 x 16
  EXPECT_EQ(columns(65536), 16 + 32);  // 2048 = 32 x 64
}

// Buckets are found once, and can be given.
TEST(Reformer, BucketsCanBeReplayed) {
  const auto mixer = made("{chunk: 4, rounds: 2}");
  const auto x = random_normal({1, 24, kWidth}, 4);
  Choices choices = {.mode = Choices::Mode::record};
  Context context = {.choices = &choices};
  const auto y = (*mixer)(x, context);
  ASSERT_EQ(choices.kept.at(".buckets").sizes(), at::IntArrayRef({1, 2, 2, 24}));
  choices.mode = Choices::Mode::replay;
  EXPECT_TRUE(at::equal((*mixer)(x, context), y));
  choices.kept.at(".buckets") = choices.kept.at(".buckets").flip(-1);
  EXPECT_FALSE(at::allclose((*mixer)(x, context), y));
}

TEST(Reformer, TrainingHashesAnewAtEachStep) {
  const auto mixer = made("{chunk: 4, rounds: 1}");
  const auto x = random_normal({1, 40, kWidth}, 5);
  const auto at_step = [&](int64_t step) {
    Context context = {.random = Random::from_seed(1, step)};
    return (*mixer)(x, context);
  };
  EXPECT_TRUE(at::equal(at_step(0), at_step(1)));
  mixer->train();
  EXPECT_TRUE(at::equal(at_step(0), at_step(0)));
  EXPECT_FALSE(at::allclose(at_step(0), at_step(1)));
}

// Ten chunks whatever the length, raw keys, scores times sqrt D, itself included, heads mixed up.
TEST(Reformer, OfficialIsTheLongRangeArenas) {
  const auto mixer = made("{official: true}");
  const auto x = random_normal({2, 40, kWidth}, 6);
  Choices choices = {.mode = Choices::Mode::record};
  Context context = {.choices = &choices};
  const auto got = (*mixer)(x, context);
  const auto buckets = choices.kept.at(".buckets");  // [2, 2, 1, 40]
  const auto s = split_heads(x.matmul(oracle::tensor_of(*mixer, "query.weight").t()), 2),
             v = split_heads(x.matmul(oracle::tensor_of(*mixer, "value.weight").t()), 2);
  auto want = at::zeros_like(v);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 2; ++h) {
      const auto order = (buckets[b][h][0] * 40 + at::arange(40)).argsort(-1, false);
      for (int64_t c = 0; c < 10; ++c) {
        const auto own = order.narrow(0, c * 4, 4), before = order.narrow(0, (c + 9) % 10 * 4, 4);
        const auto keys = at::cat({before, own});
        const auto w = s[b][h]
                           .index_select(0, own)
                           .matmul(s[b][h].index_select(0, keys).t())
                           .mul(2)
                           .softmax(-1);
        want[b][h].index_copy_(0, own, w.matmul(v[b][h].index_select(0, keys)));
      }
    }
  EXPECT_NEAR_TENSOR(got, want.reshape({2, 40, kWidth}), tolerance(at::kDouble));
  EXPECT_FALSE(mixer->named_parameters().contains("output.weight"));
}

TEST(Reformer, RefusesWhatItCannotDo) {
  EXPECT_EQ(
      error_of([] { (void)made("{buckets: [4, 3]}"); }),
      "reformer options:1: reformer.buckets has an odd number; a hash has two buckets for each "
      "of its directions");
  auto site = kSite;
  site.shape.head_width = 3;
  EXPECT_EQ(
      error_of([&] { (void)made("{official: true}", site); }),
      "reformer options:1: reformer.official has no output projection; heads times head_width "
      "must be the model width");
}

}  // namespace
}  // namespace longbow
