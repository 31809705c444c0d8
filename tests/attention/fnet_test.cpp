#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <numbers>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

// The matrix of cos or sin of 2 pi t u / n, angles reduced as integers.
Tensor waves(int64_t n, bool cosine) {
  const auto t = at::arange(n, at::kLong);
  const auto turns = t.unsqueeze(1).mul(t.unsqueeze(0)).remainder(n).to(at::kDouble);
  const auto angle = turns * (2 * std::numbers::pi / static_cast<double>(n));
  return cosine ? angle.cos() : angle.sin();
}

// Re(DFT x) = C x C - S x S, Im(DFT x) = -(C x S + S x C).
Tensor dense(const Node& options, const Tensor& x) {
  const auto n = x.size(1), c = x.size(2);
  const auto y = [&](bool left, bool right) {
    return waves(n, left).matmul(x).matmul(waves(c, right));
  };
  auto mixed = y(true, true) - y(false, false);
  if (as_string(*options.find("transform"), "transform") == "hartley")
    mixed = mixed + y(true, false) + y(false, true);
  if (as_boolean(*options.find("ortho"), "ortho"))
    mixed = mixed / std::sqrt(static_cast<double>(n * c));
  return mixed;
}

// With N as the option says: of the batch, of the longest sequence, or of each sequence.
Tensor with_length(const Node& options, const Site& site, const Tensor& x, const Tensor& keep) {
  const auto length = as_string(*options.find("length"), "length");
  if (length == "batch") return dense(options, x);
  if (length == "fixed")
    return dense(options, at::constant_pad_nd(x, {0, 0, 0, site.shape.max_length - x.size(1)}))
        .slice(1, 0, x.size(1));
  auto y = at::zeros_like(x);
  for (int64_t b = 0; b < x.size(0); ++b) {
    const int64_t own = keep.defined() ? keep[b].sum().item<int64_t>() : x.size(1);
    const auto rows = [&](const Tensor& t) { return t.narrow(0, b, 1).narrow(1, 0, own); };
    if (own > 0) rows(y).copy_(dense(options, rows(x)));
  }
  return y;
}

const bool registered = oracle::add("fnet", [](const torch::nn::Module& mixer, const Node& options,
                                               const Site& site, const Tensor& x,
                                               const Context& context) {
  const auto real = oracle::without_padding(x, context);
  const auto transform = as_string(*options.find("transform"), "transform");
  if (transform == "fourier" || transform == "hartley")
    return oracle::without_padding(with_length(options, site, real, context.mask.keep), context);
  const auto tokens = oracle::tensor_of(mixer, "tokens");
  const auto corner = tokens.slice(0, 0, x.size(1)).slice(1, 0, x.size(1));
  return oracle::without_padding(
      at::einsum("st,btc,cd->bsd", {corner, real, oracle::tensor_of(mixer, "channels")}), context);
});

Tensor mixed(const Tensor& x, const std::string& options = "{ortho: false}") {
  Context context;
  const Site site = {.shape = {.width = x.size(2), .max_length = x.size(1)}};
  return (*make_mixer("fnet", site, options))(x, context);
}

TEST(FNet, AnImpulseAtTheOriginBecomesAllOnes) {
  auto x = at::zeros({1, 7, 4}, at::kDouble);
  x[0][0][0] = 1;
  EXPECT_NEAR_TENSOR(mixed(x), at::ones({1, 7, 4}, at::kDouble), tolerance(at::kDouble));
}

TEST(FNet, InHalfPrecisionTheUnnormalisedSumsAreCutToItsRange) {
  const auto x = (8 * random_normal({1, 2048, 24}, 1) + 24).to(at::kHalf);
  for (const std::string options : {"{ortho: false}", "{ortho: false, transform: hartley}",
                                    "{ortho: false, transform: random}"}) {
    Context context;
    const auto mixer = make_mixer("fnet", {.shape = {.width = 24, .max_length = 2048}}, options);
    mixer->to(at::kHalf);
    const auto y = (*mixer)(x, context);
    EXPECT_TRUE((y + x).isfinite().all().item<bool>()) << options;
    EXPECT_EQ(y.abs().max().item<double>(), 32752) << options;
  }
  const auto y = mixed(x).to(at::kDouble), want = mixed(x.to(at::kDouble));
  EXPECT_EQ((y.abs() == 32752).sum().item<int64_t>(), 1) << "all but the sum of everything fit";
  EXPECT_NEAR_TENSOR(y.flatten().slice(0, 1), want.flatten().slice(0, 1), (Tolerance{1e-2, 1e-3}));
}

TEST(FNet, AConstantBecomesAnImpulse) {
  auto want = at::zeros({1, 7, 4}, at::kDouble);
  want[0][0][0] = 28;
  EXPECT_NEAR_TENSOR(mixed(at::ones({1, 7, 4}, at::kDouble)), want, tolerance(at::kDouble));
}

TEST(FNet, TwiceIsTheEvenPartTimesTheSize) {
  const auto x = random_normal({1, 6, 5}, 1);
  const auto mirrored = x.flip({1, 2}).roll({1, 1}, {1, 2});  // x[-t mod n, -c mod d]
  EXPECT_NEAR_TENSOR(mixed(mixed(x)), (x + mirrored) * (30 / 2.0), tolerance(at::kDouble));
}

TEST(FNet, TheHartleyFormUndoesItself) {
  const auto x = random_normal({1, 6, 5}, 2);
  EXPECT_NEAR_TENSOR(mixed(mixed(x, "{transform: hartley}"), "{transform: hartley}"), x,
                     tolerance(at::kDouble));
}

TEST(FNet, IsSelfAdjoint) {
  const auto x = random_normal({1, 9, 4}, 3), y = random_normal({1, 9, 4}, 4);
  EXPECT_NEAR_TENSOR((mixed(x) * y).sum(), (x * mixed(y)).sum(), tolerance(at::kDouble));
}

TEST(FNet, OrthoKeepsTheScale) {
  const auto x = random_normal({1, 12, 8}, 5);
  EXPECT_NEAR_TENSOR(mixed(x, "{ortho: true}"), mixed(x) / std::sqrt(96.0), tolerance(at::kDouble));
}

const Site kSite = {.shape = {.width = 4, .max_length = 6}, .seed = 3};

TEST(FNet, OnlyTheLearnedMatricesAreParameters) {
  const auto named = [](const std::string& transform) {
    const auto mixer = make_mixer("fnet", kSite, "{transform: " + transform + "}");
    return std::pair{mixer->parameters().size(), mixer->buffers().size()};
  };
  EXPECT_EQ(named("fourier"), std::pair(0ul, 0ul));
  EXPECT_EQ(named("hartley"), std::pair(0ul, 0ul));
  EXPECT_EQ(named("random"), std::pair(0ul, 2ul));
  EXPECT_EQ(named("linear"), std::pair(2ul, 0ul));
}

// With the matrices of the Fourier transform, whose part of sines is left out.
TEST(FNet, TheLearnedMatricesAreWhatTheNamesSay) {
  const auto mixer = make_mixer("fnet", kSite, "{transform: linear}");
  mixer->to(at::kDouble);
  {
    const at::NoGradGuard no_grad;
    mixer->named_parameters()["tokens"].copy_(waves(6, true));
    mixer->named_parameters()["channels"].copy_(waves(4, true));
  }
  const auto x = random_normal({1, 6, 4}, 6);
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(x, context), waves(6, true).matmul(x).matmul(waves(4, true)),
                     tolerance(at::kDouble));
}

TEST(FNet, RandomMatricesAreDrawnFromTheSeedAndKeepTheScale) {
  const Site site = {.shape = {.width = 64, .max_length = 256}, .seed = 3};
  const auto drawn = [](const Site& here, const std::string& options) {
    return make_mixer("fnet", here, options)->named_buffers()["tokens"].clone();
  };
  const auto once = drawn(site, "{transform: random}");
  EXPECT_NEAR_TENSOR(once, drawn(site, "{transform: random}"), kExact);
  Site other = site;
  other.seed = 4;
  EXPECT_FALSE(once.equal(drawn(other, "{transform: random}")));
  EXPECT_NEAR(once.std().item<double>(), 1 / 16.0, 1e-3);
  EXPECT_NEAR_TENSOR(drawn(site, "{transform: random, ortho: false}"), once * 16,
                     tolerance(at::kFloat));
}

TEST(FNet, IsTwiceDifferentiable) {
  const auto x = random_normal({1, 5, 4}, 7).requires_grad_();
  for (const std::string transform : {"fourier", "hartley"}) {
    const auto options = "{transform: " + transform + "}";
    const auto slope = gradcheck(
        [&] {
          const auto y = mixed(x, options);
          return torch::autograd::grad({(y * y).sum()}, {x}, {}, std::nullopt, true)[0];
        },
        {{"x", x}});
    EXPECT_TRUE(slope) << transform << ": " << slope.message();
  }
}

// What others in a batch are long changes nothing, unless the length is that of the batch.
TEST(FNet, ALengthOfItsOwnOrAFixedOneDoesNotDependOnTheBatch) {
  const Site site = {.shape = {.width = 5, .max_length = 20}};
  const auto x = random_normal({2, 17, 5}, 8);
  for (const std::string transform : {"fourier", "hartley"})
    for (const std::string length : {"batch", "fixed", "own"}) {
      const auto mixer =
          make_mixer("fnet", site, "{transform: " + transform + ", length: " + length + "}");
      Context batch = {.mask = Mask::from_lengths(at::tensor({17, 6}, at::kLong), 17)}, alone;
      const auto y = (*mixer)(x, batch)[1].narrow(0, 0, 6),
                 want = (*mixer)(x.narrow(0, 1, 1).narrow(1, 0, 6), alone)[0];
      if (length == "batch")
        EXPECT_FALSE(y.allclose(want)) << transform;
      else
        EXPECT_NEAR_TENSOR(y, want, tolerance(at::kDouble)) << transform << " " << length;
    }
}

TEST(FNet, SequencesOfAnyLengthsAreTransformedAtOnce) {
  const auto lengths = at::tensor({1, 2, 3, 5, 16, 31, 0}, at::kLong);
  const auto x = random_normal({7, 31, 6}, 9).requires_grad_();
  const auto mixer = make_mixer("fnet", {.shape = {.width = 6}}, "{length: own, ortho: false}");
  const auto run = [&] {
    Context context = {.mask = Mask::from_lengths(lengths, 31)};
    return (*mixer)(x, context);
  };
  const auto y = run();
  for (int64_t b = 0; b < 7; ++b) {
    const int64_t own = lengths[b].item<int64_t>();
    if (own > 0)
      EXPECT_NEAR_TENSOR(y.narrow(0, b, 1).narrow(1, 0, own),
                         mixed(x.narrow(0, b, 1).narrow(1, 0, own)), tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(y[b].slice(0, own), at::zeros({31 - own, 6}, at::kDouble), kExact);
  }
  const auto twice = gradcheck(
      [&] {
        const auto z = run();
        return torch::autograd::grad({(z * z).sum()}, {x}, {}, std::nullopt, true)[0];
      },
      {{"x", x}});
  EXPECT_TRUE(twice) << twice.message();
}

TEST(FNet, RefusesWhatItCannotDo) {
  EXPECT_EQ(error_of([] {
              (void)mixed(at::zeros({1, 2, 2}), "{transform: cosine}");
            }),
            "fnet options:1: fnet.transform is 'cosine'; one of: fourier, hartley, random, linear");
  for (const std::string options :
       {"{transform: random}", "{transform: linear}", "{length: fixed}"}) {
    EXPECT_EQ(error_of([&] { (void)make_mixer("fnet", {.shape = {.width = 4}}, options); }),
              "fnet: needs max_length, here or in the model");
    Context context;
    EXPECT_EQ(error_of([&] {
                (*make_mixer("fnet", kSite, options))(at::zeros({1, 7, 4}), context);
              }),
              "fnet: 7 tokens, but max_length is 6");
  }
  Context causal = {.mask = {.causal = true}};
  const auto mixer = make_mixer("fnet", {.shape = {.width = 4, .max_length = 4}});
  EXPECT_EQ(error_of([&] {
              (*mixer)(at::zeros({1, 2, 4}), causal);
            }).find("fnet: is not causal; mechanisms that do: "),
            0u);
}

}  // namespace
}  // namespace longbow
