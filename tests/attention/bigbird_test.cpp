#include <ATen/ATen.h>

#include <set>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 6;
const Site kSite = {.shape = {.width = kWidth, .heads = 2, .max_length = 64}, .init = "xavier"};

struct Options {
  int64_t block, random;
  bool prefix, padded_blocks, official;
};
Options read_options(const Node& node) {
  const auto is = [&](const char* key) { return as_boolean(*node.find(key), key); };
  return {as_integer(*node.find("block"), "block"), as_integer(*node.find("random"), "random"),
          as_string(*node.find("plan"), "plan") == "prefix", is("padded_blocks"), is("official")};
}

// Distinct blocks of `candidates` by the stored numbers: each picks one of those that are left.
std::set<int64_t> drawn(std::vector<int64_t> candidates, const Tensor& draws) {
  std::set<int64_t> chosen;
  for (int64_t k = 0; k < draws.size(0) && !candidates.empty(); ++k) {
    const auto place =
        static_cast<size_t>(draws[k].item<double>() * static_cast<double>(candidates.size()));
    chosen.insert(candidates[place]);
    candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(place));
  }
  return chosen;
}

// Which blocks block u of `blocks` reads.
std::set<int64_t> read_by(const Options& o, const Tensor& draws, int64_t u, int64_t blocks,
                          bool causal) {
  const int64_t prefix = std::max<int64_t>((1024 + o.block - 1) / o.block, 2);
  const auto candidate = [&](int64_t c) {
    const bool inside = causal ? c < u - 1 : c < blocks - 1 && std::abs(c - u) > 1;
    return c > 0 && inside && (c < prefix || !(o.prefix || o.official));
  };
  std::vector<int64_t> candidates;
  for (int64_t c = 0; c < blocks; ++c)
    if (candidate(c)) candidates.push_back(c);
  auto listed = drawn(candidates, draws[u % draws.size(0)]);
  for (int64_t c = 0; c < blocks; ++c) {
    const bool near = std::abs(c - u) <= 1, end = c == 0 || (c == blocks - 1 && !causal);
    const bool all = !causal && (u == 0 || u == blocks - 1 || blocks <= 5 + 2 * o.random);
    if (near || end || all) listed.insert(c);
  }
  return listed;
}

Tensor bigbird(const torch::nn::Module& mixer, const Node& node, const Site& site, const Tensor& x,
               const Context& context) {
  const auto o = read_options(node);
  const auto draws = oracle::tensor_of(mixer, "attention.draws");
  const int64_t batch = x.size(0), n = x.size(1), heads = site.shape.heads;
  const int64_t extra = o.official ? o.block - n % o.block : 0;
  auto reads = at::zeros({batch, heads, n + extra, n + extra}, at::kDouble);
  for (int64_t b = 0; b < batch; ++b) {
    const bool real = context.mask.keep.defined() && !o.padded_blocks && !o.official;
    const int64_t tokens = real ? context.mask.keep[b].sum().item<int64_t>() : n + extra;
    const int64_t blocks = (tokens + o.block - 1) / o.block;
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < tokens; ++i)
        for (const int64_t c : read_by(o, draws[h], i / o.block, blocks, context.mask.causal))
          for (int64_t j = c * o.block; j < std::min((c + 1) * o.block, n + extra); ++j)
            reads[b][h][i][j] = 1;
  }
  return oracle::multi_head(
      mixer, site, x, context,
      [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
        // Zero keys behind the sequence, which a query that is not causal reads.
        const auto longer = [&](const Tensor& t) {
          return at::constant_pad_nd(t, {0, 0, 0, extra});
        };
        const auto seen = at::constant_pad_nd(
            at::constant_pad_nd(visible, {0, extra}, context.mask.causal ? 0 : 1),
            {0, 0, 0, extra});
        return oracle::softmax(longer(q), longer(k), longer(v), seen * reads).narrow(2, 0, n);
      });
}
const bool registered = oracle::add("bigbird", bigbird);

Mixer made(const std::string& name, const std::string& options) {
  auto mixer = make_mixer(name, kSite, options);
  mixer->to(at::kDouble);
  return mixer;
}

TEST(BigBird, FewBlocksAreSoftmax) {
  const auto x = random_normal({2, 44, kWidth}, 1);
  Context context;
  for (const auto* options : {"", "{block: 4, random: 3}", "{block: 15, random: 0}"})
    EXPECT_NEAR_TENSOR((*made("bigbird", options))(x, context), (*made("softmax", ""))(x, context),
                       tolerance(at::kDouble));
  Context causal = {.mask = {.causal = true}};
  EXPECT_NEAR_TENSOR((*made("bigbird", "{block: 22}"))(x, causal),
                     (*made("softmax", ""))(x, causal), tolerance(at::kDouble));
}

// Blocks in the middle without random ones read what local reads, besides the ends.
TEST(BigBird, NeighboursAreThoseOfLocal) {
  const auto mixer = made("bigbird", "{block: 4, random: 0}");
  const auto x = random_normal({1, 48, kWidth}, 2).requires_grad_();
  Context context;
  (*mixer)(x, context)[0][21].sum().backward();
  std::set<int64_t> read;
  for (int64_t j = 0; j < 48; ++j)
    if (x.grad()[0][j].abs().max().item<double>() > 0) read.insert(j / 4);
  EXPECT_EQ(read, (std::set<int64_t>{0, 4, 5, 6, 11}));
}

// [1, H, 32, 5]
Tensor random_blocks(MixerImpl& mixer, bool causal) {
  Choices choices = {.mode = Choices::Mode::record};
  Context context = {.mask = {.causal = causal}, .choices = &choices};
  mixer(random_normal({1, 63, kWidth}, 3), context);
  EXPECT_EQ(choices.kept.size(), 1u);
  return choices.kept.begin()->second;
}

// Every block reads different random ones, as many as there are, which are no neighbours.
void expect_distinct(const Tensor& blocks, bool causal) {
  ASSERT_EQ(blocks.sizes(), at::IntArrayRef({1, 2, 32, 5}));
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t u = 0; u < 32; ++u) {
      std::set<int64_t> seen;
      for (int64_t k = 0; k < 5; ++k) {
        const auto c = blocks[0][h][u][k].item<int64_t>();
        if (c < 0) continue;
        seen.insert(c);
        EXPECT_GT(c, 0);
        if (causal) EXPECT_LT(c, u - 1);
        if (!causal) EXPECT_TRUE(c < 31 && std::abs(c - u) > 1) << c << " of " << u;
      }
      const int64_t want = causal ? std::clamp<int64_t>(u - 2, 0, 5) : 5;
      EXPECT_EQ(static_cast<int64_t>(seen.size()), want) << u;
    }
}

TEST(BigBird, RandomBlocksAreDistinctAndStored) {
  for (const bool causal : {false, true}) {
    const auto mixer = made("bigbird", "{block: 2, random: 5}");
    const auto blocks = random_blocks(*mixer, causal);
    EXPECT_FALSE(at::equal(blocks[0][0], blocks[0][1])) << "each head its own";
    expect_distinct(blocks, causal);
  }
}

// As half types round one draw of 512.
TEST(BigBird, ADrawThatWasRoundedToOneIsTheLastCandidate) {
  for (const bool causal : {false, true})
    for (const auto* options : {"{block: 2, random: 5}", "{block: 2, random: 5, plan: prefix}"}) {
      const auto mixer = made("bigbird", options);
      oracle::tensor_of(*mixer, "attention.draws").fill_(1);
      expect_distinct(random_blocks(*mixer, causal), causal);
    }
}

TEST(BigBird, RefusesWhatItCannotDo) {
  EXPECT_EQ(error_of([] { (void)made("bigbird", "{block: 0}"); }),
            "bigbird options:1: bigbird.block is 0, out of range; it may be 1..65536");
}

}  // namespace
}  // namespace longbow
