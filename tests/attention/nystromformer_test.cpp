#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 6, kHeads = 2;
const Site kSite = {.shape = {.width = kWidth, .heads = kHeads, .max_length = 64},
                    .init = "xavier"};

// The means of rows floor(g L / R) .. floor((g + 1) L / R) - 1, where every g has such rows.
Tensor means(const Tensor& rows, int64_t landmarks) {
  const int64_t length = rows.size(0);
  std::vector<Tensor> found;
  for (int64_t g = 0; g < landmarks; ++g) {
    const int64_t first = g * length / landmarks, end = (g + 1) * length / landmarks;
    found.push_back(rows.narrow(0, first, end - first).mean(0));
  }
  return at::stack(found);
}

Tensor softmax_of(const Tensor& q, const Tensor& k) {
  return q.matmul(k.t()).div(std::sqrt(static_cast<double>(q.size(1)))).softmax(-1);
}

Tensor iterated(const Tensor& a, int64_t steps) {
  const auto i = at::eye(a.size(0), at::kDouble);
  auto z = a.t() / (a.sum(0).max() * a.sum(1).max());
  for (int64_t step = 0; step < steps; ++step)
    z = 0.25 * z.mm(13 * i - a.mm(z).mm(15 * i - a.mm(z).mm(7 * i - a.mm(z))));
  return z;
}

using Inverse = std::function<Tensor(const Tensor&)>;

// One head of one sequence, of whose keys the first `real` are there. [N, D]
Tensor one_head(const Tensor& q, const Tensor& k, const Tensor& v, int64_t real, int64_t landmarks,
                const Inverse& inverse) {
  const int64_t r = std::min({landmarks, q.size(0), k.size(0)});
  const auto q_mean = means(q, r), k_mean = means(k, r);
  return softmax_of(q, k_mean)
      .mm(inverse(softmax_of(q_mean, k_mean)))
      .mm(softmax_of(q_mean, k.narrow(0, 0, real)))
      .mm(v.narrow(0, 0, real));
}

// conv(V)_i = sum_t filter_t V_(i + t - taps div 2), over the tokens that are there.
Tensor filtered(const Tensor& v, const Tensor& filter) {
  const int64_t length = v.size(0), taps = filter.size(0);
  auto y = at::zeros_like(v);
  for (int64_t i = 0; i < length; ++i)
    for (int64_t t = 0; t < taps; ++t) {
      const int64_t j = i + t - taps / 2;
      if (0 <= j && j < length) y[i] += filter[t] * v[j];
    }
  return y;
}

int64_t length_of(const Tensor& keep, int64_t b, int64_t all) {
  return keep.defined() ? keep[b].sum().item<int64_t>() : all;
}

// Every head of every sequence by itself, cut to its real tokens, or, with zeroed segments, with
// zeros in the places of the others.
Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site& site, const Tensor& x,
             const Context& context, const Inverse& inverse) {
  const int64_t landmarks = as_integer(*options.find("landmarks"), "landmarks");
  const bool zeroed = as_string(*options.find("segments"), "segments") == "zeroed";
  const bool crossing = context.memory.defined();
  const int64_t taps = crossing ? 0 : as_integer(*options.find("conv"), "conv");
  const auto& keep = context.mask.keep;
  return oracle::multi_head(
      mixer, site, x, context,
      [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&) {
        auto y = at::zeros_like(q);
        for (int64_t b = 0; b < q.size(0); ++b) {
          const int64_t real = length_of(keep, b, k.size(2)),
                        asked = length_of(crossing ? context.mask.query_keep : keep, b, q.size(2));
          const auto cut = [&](const Tensor& heads, int64_t h, int64_t length) {
            const auto rows = heads[b][h].narrow(0, 0, length);
            return zeroed ? at::constant_pad_nd(rows, {0, 0, 0, heads.size(2) - length}) : rows;
          };
          for (int64_t h = 0; h < q.size(1) && real > 0 && asked > 0; ++h) {
            auto o = y[b][h].narrow(0, 0, asked);
            o.copy_(one_head(cut(q, h, asked), cut(k, h, real), cut(v, h, real), real, landmarks,
                             inverse)
                        .narrow(0, 0, asked));
            if (taps > 0)
              o.add_(filtered(v[b][h].narrow(0, 0, real),
                              oracle::tensor_of(mixer, "attention.conv")[h]));
          }
        }
        return y;
      });
}

const bool registered =
    oracle::add("nystromformer", [](const torch::nn::Module& mixer, const Node& options,
                                    const Site& site, const Tensor& x, const Context& context) {
      const int64_t steps = as_integer(*options.find("steps"), "steps");
      return dense(mixer, options, site, x, context,
                   [&](const Tensor& a) { return iterated(a, steps); });
    });

Mixer made(const std::string& options, const std::string& name = "nystromformer") {
  auto mixer = make_mixer(name, kSite, options);
  mixer->to(at::kDouble);
  return mixer;
}

Tensor run(const std::string& options, const Tensor& x, Context context = {}) {
  return (*made(options))(x, context);
}

TEST(Nystromformer, AsManyLandmarksAsTokensAreSoftmax) {
  const auto x = random_normal({2, 16, kWidth}, 1);
  Context all, padded = {.mask = Mask::from_lengths(at::tensor({16, 9}, at::kLong), 16)};
  for (auto* context : {&all, &padded})
    for (const std::string landmarks : {"16", "50"})
      EXPECT_NEAR_TENSOR(run("{landmarks: " + landmarks + ", steps: 30, conv: 0}", x, *context),
                         (*made("", "softmax"))(x, *context), (Tolerance{1e-8, 1e-8}));
}

TEST(Nystromformer, TheIterationEndsInThePseudoInverse) {
  const auto x = random_normal({2, 23, kWidth}, 2);
  const std::string options = "{landmarks: 5, steps: 40, conv: 0}";
  const Context context = {.mask = Mask::from_lengths(at::tensor({23, 4}, at::kLong), 23)};
  const auto resolved = find_mechanism("nystromformer").resolve(parse_yaml(options, "options"));
  EXPECT_NEAR_TENSOR(run(options, x, context),
                     dense(*made(options), resolved, kSite, x, context,
                           [](const Tensor& a) { return at::linalg_pinv(a, 1e-12); }),
                     (Tolerance{1e-7, 1e-7}));
}

TEST(Nystromformer, MoreStepsComeCloserToThePseudoInverse) {
  const auto x = random_normal({1, 16, kWidth}, 3);
  Context context;
  const auto want = (*made("", "softmax"))(x, context);
  const auto error = [&](const std::string& steps) {
    return (run("{landmarks: 16, conv: 0, steps: " + steps + "}", x) - want)
        .abs()
        .max()
        .item<double>();
  };
  EXPECT_LT(error("12"), error("6"));
  EXPECT_LT(error("6"), error("2"));
}

// With one landmark F1 and F2 are ones, and every query reads what the mean query reads.
TEST(Nystromformer, OneLandmarkReadsAsTheMeanQuery) {
  const auto y = run("{landmarks: 1, conv: 0}", random_normal({1, 7, kWidth}, 4));
  EXPECT_NEAR_TENSOR(y, y.narrow(1, 0, 1).expand_as(y), tolerance(at::kDouble));
}

TEST(Nystromformer, TheConvolutionIsOneFilterPerHead) {
  const auto mixer = made("{landmarks: 3, conv: 5}"), without = made("{landmarks: 3, conv: 0}");
  EXPECT_EQ(mixer->named_parameters()["attention.conv"].sizes(), at::IntArrayRef({kHeads, 5}));
  EXPECT_FALSE(without->named_parameters().contains("attention.conv"));
  const at::NoGradGuard no_grad;
  mixer->named_parameters()["attention.conv"].zero_();
  const auto x = random_normal({2, 11, kWidth}, 5);
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(x, context), (*without)(x, context), tolerance(at::kDouble));
  mixer->named_parameters()["attention.conv"].select(1, 2).fill_(1);  // the tap in the middle
  const auto values = x.matmul(oracle::tensor_of(*mixer, "value.weight").t());
  EXPECT_NEAR_TENSOR((*mixer)(x, context) - (*without)(x, context),
                     values.matmul(oracle::tensor_of(*mixer, "output.weight").t()),
                     tolerance(at::kDouble));
}

TEST(Nystromformer, ALookShowsTheWholeMatrix) {
  Tensors maps;
  const auto x = random_normal({1, 12, kWidth}, 6);
  (void)run("{landmarks: 4, steps: 30}", x, {.maps = &maps});
  const auto weights = maps.at("");
  EXPECT_EQ(weights.sizes(), at::IntArrayRef({1, kHeads, 12, 12}));
  EXPECT_NEAR_TENSOR(weights.sum(-1), at::ones({1, kHeads, 12}), (Tolerance{1e-7, 1e-7}));
}

// Landmarks of queries and of keys are paired by their numbers; a short memory has fewer.
TEST(Nystromformer, OverAMemoryThereAreNoMoreLandmarksThanQueriesOrKeys) {
  Site site = kSite;
  site.cross = true;
  const auto mixer = make_mixer("nystromformer", site, "{landmarks: 4}");
  EXPECT_FALSE(mixer->named_parameters().contains("attention.conv"));
  const auto map = [&](int64_t queries, int64_t keys) {
    Tensors maps;
    Context context = {.memory = at::ones({1, keys, kWidth}), .maps = &maps};
    (void)(*mixer)(at::ones({1, queries, kWidth}), context);
    return maps.at("");
  };
  EXPECT_EQ(map(3, 11).sizes(), at::IntArrayRef({1, kHeads, 3, 11}));
  EXPECT_NEAR_TENSOR(map(3, 1), at::ones({1, kHeads, 3, 1}), tolerance(at::kFloat));
}

// What the conventions of the libraries change, and that nothing else does.
TEST(Nystromformer, ConventionsDifferOnlyWherePlacesAreNotTokens) {
  const auto x = random_normal({2, 12, kWidth}, 8), odd = random_normal({2, 13, kWidth}, 9);
  const Context padded = {.mask = Mask::from_lengths(at::tensor({12, 5}, at::kLong), 12)};
  const auto with = [&](const std::string& segments, const Tensor& tokens, const Context& context) {
    return run("{landmarks: 4, conv: 3, segments: " + segments + "}", tokens, context);
  };
  for (const std::string segments : {"zeroed", "all", "left"}) {
    EXPECT_NEAR_TENSOR(with(segments, x, {}), with("real", x, {}), tolerance(at::kDouble));
    const auto theirs = with(segments, x, padded), ours = with("real", x, padded);
    EXPECT_FALSE(theirs[1].allclose(ours[1])) << segments;
    EXPECT_TRUE(theirs.narrow(1, 5, 7)[1].eq(0).all().item<bool>()) << segments;
    auto other = x.clone();
    other[1].narrow(0, 5, 7).add_(1);
    EXPECT_EQ(with(segments, other, padded).allclose(theirs), segments != "all") << segments;
  }
  EXPECT_FALSE(with("left", odd, {}).allclose(with("real", odd, {})));
}

TEST(Nystromformer, AStartForTheBatchLetsARowChangeAnother) {
  auto x = random_normal({2, 12, kWidth}, 10);
  const auto first = [&](const std::string& start) {
    return run("{landmarks: 4, start: " + start + "}", x)[0];
  };
  const auto matrix = first("matrix"), batch = first("batch");
  x[1].mul_(9);
  EXPECT_NEAR_TENSOR(first("matrix"), matrix, tolerance(at::kDouble));
  EXPECT_FALSE(first("batch").allclose(batch));
}

TEST(Nystromformer, TheShortcutIsSoftmaxAtOneLengthOnly) {
  const std::string options = "{landmarks: 9, steps: 1, conv: 0, shortcut: ";
  const Context padded = {.mask = Mask::from_lengths(at::tensor({9, 5}, at::kLong), 9)};
  for (const int64_t tokens : {9, 10}) {
    const auto x = random_normal({2, tokens, kWidth}, 11);
    Context context = tokens == 9 ? padded : Context{};
    const auto y = run(options + "true}", x, context);
    EXPECT_EQ(y.allclose((*made("", "softmax"))(x, context)), tokens == 9);
    EXPECT_EQ(y.allclose(run(options + "false}", x, context)), tokens == 10);
  }
}

TEST(Nystromformer, PromisesLessAboutPaddingWhereALibraryDoes) {
  const auto padding = [](const std::string& options) {
    return find_mechanism("nystromformer").promises(parse_yaml(options, "options")).padding;
  };
  EXPECT_EQ(padding("{start: batch}"), Padding::contents);
  EXPECT_EQ(padding("{steps: 3}"), Padding::invisible);
  EXPECT_EQ(padding("{shortcut: true}"), Padding::contents);
  EXPECT_EQ(padding("{segments: zeroed}"), Padding::contents);
  EXPECT_EQ(padding("{segments: left}"), Padding::contents);
  EXPECT_EQ(padding("{segments: all}"), Padding::visible);
}

TEST(Nystromformer, RefusesWhatItCannotDo) {
  EXPECT_EQ(error_of([] { (void)made("{landmarks: 0}"); }),
            "nystromformer options:1: nystromformer.landmarks is 0, out of range; it may be "
            "1..65536");
  EXPECT_EQ(error_of([] { (void)made("{steps: 0}"); }),
            "nystromformer options:1: nystromformer.steps is 0, out of range; it may be 1..100");
  EXPECT_EQ(error_of([] { (void)made("{conv: -1}"); }),
            "nystromformer options:1: nystromformer.conv is -1, out of range; it may be 0..4095");
  EXPECT_EQ(error_of([] { (void)made("{segments: some}"); }),
            "nystromformer options:1: nystromformer.segments is 'some'; one of: real, zeroed, all, "
            "left");
  EXPECT_EQ(error_of([] { (void)made("{start: row}"); }),
            "nystromformer options:1: nystromformer.start is 'row'; one of: matrix, batch");
  const auto x = random_normal({1, 3, kWidth}, 7);
  EXPECT_EQ(error_of([&] {
              (void)run("", x, {.mask = {.causal = true}});
            }).find("nystromformer: is not causal; mechanisms that do: "),
            0u);
}

}  // namespace
}  // namespace longbow
