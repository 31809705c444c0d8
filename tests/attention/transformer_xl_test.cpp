#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/relative.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 6, kTokens = 23;
const Site kSite = {.shape = {.width = kWidth, .heads = 2, .max_length = 64}, .init = "xavier"};

// ((q_i + u) . k_j + (q_i + v) . W_r R_(i - j)) / sqrt D, pair by pair; keys before the first token
// are zero.
const bool registered = oracle::add("transformer_xl", [](const torch::nn::Module& mixer,
                                                         const Node& options, const Site& site,
                                                         const Tensor& x, const Context& context) {
  const auto integer = [&](const char* key) { return as_integer(*options.find(key), key); };
  const int64_t memory = integer("memory"), segment = integer("segment");
  const int64_t zeros = as_boolean(*options.find("zero_start"), "zero_start") ? memory : int64_t(0);
  const auto attend = [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&) {
    const auto keys = at::constant_pad_nd(k, {0, 0, zeros, 0}),
               values = at::constant_pad_nd(v, {0, 0, zeros, 0});
    auto y = at::zeros_like(q);
    for (int64_t i = 0; i < q.size(2); ++i) {
      const int64_t window = segment > 0 ? i / segment * segment - memory : i - memory + 1;
      const int64_t oldest = std::max(window, -zeros), count = i - oldest + 1;
      const auto scores = oracle::relative_scores(mixer, options, site, q.select(2, i),
                                                  keys.narrow(2, oldest + zeros, count),
                                                  i - at::arange(oldest, i + 1, at::kLong));
      const auto weights = scores.softmax(-1).unsqueeze(-1);  // [B, H, keys, 1]
      y.select(2, i).copy_((weights * values.narrow(2, oldest + zeros, count)).sum(2));
    }
    return y;
  };
  return oracle::multi_head(mixer, site, x, context, attend);
});

Mixer made(const std::string& name, const std::string& options, const Site& site = kSite) {
  auto mixer = make_mixer(name, site, options);
  mixer->to(at::kDouble);
  mixer->eval();
  return mixer;
}

Tensor causal(const Mixer& mixer, const Tensor& x) {
  Context context = {.mask = {.causal = true}};
  return (*mixer)(x, context);
}

void silence_positions(const Mixer& mixer) {
  const at::NoGradGuard no_grad;
  for (auto& item : mixer->named_parameters())
    if (item.key().rfind("relative.", 0) == 0) item.value().zero_();
}

// x in segments, each with a gradient of its own, as a model is trained over a stream.
std::vector<Tensor> in_segments(const Mixer& mixer, const std::vector<Tensor>& segments) {
  State state;
  Context context;
  mixer->start(state, segments.front().size(0), 1 << 20, context);
  std::vector<Tensor> outputs;
  for (const auto& x : segments) {
    Context next;
    outputs.push_back(mixer->extend(x, state, next));
    state.detach();
  }
  return outputs;
}

TEST(TransformerXl, WithoutPositionsAndWithALongMemoryItIsSoftmax) {
  const auto x = random_normal({2, kTokens, kWidth}, 1);
  for (const auto* options : {"{memory: 23}", "{memory: 16, segment: 8}"}) {
    const auto mixer = made("transformer_xl", options);
    silence_positions(mixer);
    EXPECT_NEAR_TENSOR(causal(mixer, x), causal(made("softmax", ""), x), tolerance(at::kDouble))
        << options;
  }
}

TEST(TransformerXl, EqualLengthsAreASlidingWindow) {
  const auto x = random_normal({2, kTokens, kWidth}, 2);
  const auto mixer = made("transformer_xl", "{memory: 6}");
  silence_positions(mixer);
  const auto window = made("local", "{window: 1, back: 5}");
  EXPECT_NEAR_TENSOR(causal(mixer, x), causal(window, x), tolerance(at::kDouble));
}

// Which inputs move output i.
std::vector<int64_t> read_by(const Mixer& mixer, int64_t i) {
  const auto x = random_normal({1, kTokens, kWidth}, 3).requires_grad_();
  causal(mixer, x)[0][i].sum().backward();
  std::vector<int64_t> tokens;
  for (int64_t j = 0; j < kTokens; ++j)
    if (x.grad()[0][j].abs().max().item<double>() > 0) tokens.push_back(j);
  return tokens;
}

TEST(TransformerXl, AQueryReadsItsSegmentAndTheMemoryBeforeIt) {
  const auto segments = made("transformer_xl", "{memory: 3, segment: 4}");
  EXPECT_EQ(read_by(segments, 2), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(read_by(segments, 8), (std::vector<int64_t>{5, 6, 7, 8}));
  EXPECT_EQ(read_by(segments, 11), (std::vector<int64_t>{5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(read_by(made("transformer_xl", "{memory: 3}"), 11), (std::vector<int64_t>{9, 10, 11}));
}

TEST(TransformerXl, ClampedDistancesAreTheSameBeyond) {
  const auto x = random_normal({1, kTokens, kWidth}, 4);
  EXPECT_NEAR_TENSOR(causal(made("transformer_xl", "{clamp: 22}"), x),
                     causal(made("transformer_xl", ""), x), tolerance(at::kDouble));
  EXPECT_GT(
      (causal(made("transformer_xl", "{clamp: 2}"), x) - causal(made("transformer_xl", ""), x))
          .abs()
          .max()
          .item<double>(),
      1e-4);
}

// Tokens of earlier segments get no gradient from later ones, but the projections learn from them.
TEST(TransformerXl, ADetachedMemoryStillTeachesItsProjections) {
  const auto mixer = made("transformer_xl", "{memory: 8}");
  std::vector<Tensor> segments;
  for (uint64_t s = 0; s < 3; ++s)
    segments.push_back(random_normal({2, 5, kWidth}, 5 + s).requires_grad_());
  in_segments(mixer, segments)[2].sum().backward();
  EXPECT_FALSE(segments[0].grad().defined() && segments[0].grad().abs().sum().item<double>() > 0);
  EXPECT_FALSE(segments[1].grad().defined() && segments[1].grad().abs().sum().item<double>() > 0);
  const auto through_memory = mixer->named_parameters()["key.weight"].grad().clone();
  mixer->zero_grad();
  // Memory rows as constants of a single forward pass give the same.
  const auto x = at::cat({segments[0].detach(), segments[1].detach(), segments[2]}, 1);
  causal(mixer, x).narrow(1, 10, 5).sum().backward();
  EXPECT_NEAR_TENSOR(through_memory, mixer->named_parameters()["key.weight"].grad(),
                     tolerance(at::kDouble));
}

TEST(TransformerXl, AStateHoldsTheMemoryWhateverItsCapacity) {
  const auto mixer = made("transformer_xl", "{memory: 5, segment: 4}");
  State state;
  Context context;
  mixer->start(state, 3, 1000000, context);
  EXPECT_EQ(state.lane.at("memory").sizes(), at::IntArrayRef({3, 8, kWidth}));
  const at::NoGradGuard no_grad;
  mixer->start(state, 3, 1000000, context);
  EXPECT_EQ(state.lane.count("memory"), 0u);
  EXPECT_EQ(state.lane.at("memory.keys").sizes(), at::IntArrayRef({3, 8, kWidth}));
}

TEST(TransformerXl, BiasesAreThoseOfTheStackOrOfTheLayer) {
  Site site = kSite;
  site.shared = std::make_shared<Shared>();
  EXPECT_FALSE(make_mixer("transformer_xl", site)->named_parameters().contains("relative.u"));
  EXPECT_EQ(site.shared->named_parameters()["relative_u"].sizes(), at::IntArrayRef({2, 3}));
  const auto own = make_mixer("transformer_xl", site, "{shared: false}");
  EXPECT_TRUE(own->named_parameters().contains("relative.v"));
}

TEST(TransformerXl, RefusesWhatItCannotDo) {
  EXPECT_EQ(error_of([] { (void)made("transformer_xl", "{memory: 0}"); }),
            "transformer_xl options:1: transformer_xl.memory is 0, out of range; it may be "
            "1..1048576");
  Context both;
  EXPECT_EQ(error_of([&] {
              (*made("transformer_xl", ""))(random_normal({1, 3, kWidth}, 8), both);
            }).find("transformer_xl: is causal only; mechanisms that do: "),
            0u);
}

}  // namespace
}  // namespace longbow
