#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 6;
const Site kSite = {.shape = {.width = kWidth, .heads = 2, .max_length = 64}, .init = "xavier"};

// [N, N]: how often i reads j, pair by pair: i div W - back <= j div W <= i div W + ahead, and what
// the first token has beside that.
Tensor reach(const Node& options, int64_t length, bool causal) {
  const int64_t w = as_integer(*options.find("window"), "window");
  const int64_t back = as_integer(*options.find("back"), "back");
  const int64_t ahead = causal ? 0 : as_integer(*options.find("ahead"), "ahead");
  const auto is = [&](const char* key) { return as_boolean(*options.find(key), key); };
  const bool exact = is("exact_window");
  const int64_t block = std::min(w, length), blocks = (length + block - 1) / block;
  auto visible = at::zeros({length, length}, at::kDouble);
  for (int64_t i = 0; i < length; ++i)
    for (int64_t j = 0; j < length; ++j) {
      const bool near = i / w - back <= j / w && j / w <= i / w + ahead;
      const bool first =
          (j == 0 && is("all_read_first")) || (i == 0 && !causal && is("first_reads_all"));
      if (first || (near && (!exact || std::abs(i - j) <= back * w))) visible[i][j] = 1;
      if (is("wrap") && !causal) {
        int64_t times = 0;
        for (int64_t d = -back; d <= ahead; ++d)
          times += (i / block + d + blocks * back) % blocks == j / block;
        visible[i][j] = times;
      }
      if (is("shared_qk") && i == j) visible[i][j] = 0;
    }
  return visible;
}

// Block g of B = N' / W blocks holds tokens g, g + B, …; N' > N is a multiple of W, and what is
// added has zero keys and values. Slot s of block g is hidden as token g W + s is.
Tensor official(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keep, int64_t w) {
  const int64_t n = q.size(2), blocks = n / w + 1;
  auto y = at::zeros_like(v);
  for (int64_t b = 0; b < q.size(0); ++b)
    for (int64_t h = 0; h < q.size(1); ++h)
      for (int64_t i = 0; i < n; ++i) {
        auto scores = at::full({w}, -INFINITY, at::kDouble),
             values = at::zeros({w, v.size(3)}, at::kDouble);
        const int64_t g = i % blocks;
        for (int64_t s = 0; s < w; ++s) {
          const int64_t j = s * blocks + g, flag = g * w + s;
          if (flag >= n || !keep.defined() || keep[b][flag].item<bool>())
            scores[s] = j < n ? q[b][h][i].dot(k[b][h][j]) / std::sqrt(q.size(3))
                              : at::zeros({}, at::kDouble);
          if (j < n) values[s] = v[b][h][j];
        }
        if (scores.isneginf().all().item<bool>()) scores = at::zeros({w}, at::kDouble);
        y[b][h][i] = scores.softmax(0).matmul(values);
      }
  return y;
}

Tensor local(const torch::nn::Module& mixer, const Node& options, const Site& site, const Tensor& x,
             const Context& context) {
  const auto is = [&](const char* key) { return as_boolean(*options.find(key), key); };
  const auto attend = [&](const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& visible) -> Tensor {
    if (is("official"))
      return official(q, k, v, context.mask.keep, as_integer(*options.find("window"), "window"));
    const auto seen = visible * reach(options, x.size(1), context.mask.causal);
    const auto keys = is("shared_qk") ? q / q.norm(2, {-1}, true).clamp_min(1e-6) : k;
    const auto w = (q.matmul(keys.transpose(-2, -1)) / std::sqrt(site.shape.head())).exp() * seen;
    const auto sum = w.sum(-1, true);
    const auto alone = is("shared_qk") ? v : at::zeros_like(v);
    return at::where(sum > 0, w.matmul(v) / sum.clamp_min(1e-300), alone);
  };
  if (!is("shared_qk")) return oracle::multi_head(mixer, site, x, context, attend);
  const auto project = [&](const std::string& name, const Tensor& from) {
    const auto y = from.matmul(oracle::tensor_of(mixer, name + ".weight").t());
    return site.bias ? y + oracle::tensor_of(mixer, name + ".bias") : y;
  };
  const auto s = split_heads(project("query", x), site.shape.heads),
             v = split_heads(project("value", x), site.shape.heads);
  const auto y = attend(s, s, v, oracle::visible(context, x.size(0), x.size(1), x.size(1)));
  return oracle::without_padding(project("output", merge_heads(y)), context);
}
const bool registered = oracle::add("local", local);

Mixer made(const std::string& name, const std::string& options) {
  auto mixer = make_mixer(name, kSite, options);
  mixer->to(at::kDouble);
  return mixer;
}

TEST(Local, AWindowOverEverythingIsSoftmax) {
  const auto x = random_normal({2, 30, kWidth}, 1);
  for (const bool causal : {false, true}) {
    Context context = {.mask = {.causal = causal}};
    EXPECT_NEAR_TENSOR((*made("local", "{window: 30}"))(x, context),
                       (*made("softmax", ""))(x, context), tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR((*made("local", "{window: 10, back: 2, ahead: 2}"))(x, context),
                       (*made("softmax", ""))(x, context), tolerance(at::kDouble));
  }
}

TEST(Local, AWindowOfOneGivesTheValues) {
  const auto mixer = made("local", "{window: 1, back: 0, ahead: 0}");
  const auto x = random_normal({1, 7, kWidth}, 2);
  Context context;
  const auto value = x.matmul(oracle::tensor_of(*mixer, "value.weight").t());
  EXPECT_NEAR_TENSOR((*mixer)(x, context),
                     value.matmul(oracle::tensor_of(*mixer, "output.weight").t()),
                     tolerance(at::kDouble));
}

// Which inputs move output i: exactly the tokens it may read.
std::vector<int64_t> read_by(const Mixer& mixer, int64_t i, bool causal) {
  const auto x = random_normal({1, 24, kWidth}, 3).requires_grad_();
  Context context = {.mask = {.causal = causal}};
  (*mixer)(x, context)[0][i].sum().backward();
  std::vector<int64_t> tokens;
  for (int64_t j = 0; j < 24; ++j)
    if (x.grad()[0][j].abs().max().item<double>() > 0) tokens.push_back(j);
  return tokens;
}

TEST(Local, AQueryReadsItsBlockAndTheNeighboursAskedFor) {
  const auto range = [](int64_t first, int64_t last) {
    std::vector<int64_t> tokens;
    for (int64_t j = first; j <= last; ++j) tokens.push_back(j);
    return tokens;
  };
  EXPECT_EQ(read_by(made("local", "{window: 5, back: 0, ahead: 0}"), 7, false), range(5, 9));
  EXPECT_EQ(read_by(made("local", "{window: 5, back: 1, ahead: 0}"), 7, false), range(0, 9));
  EXPECT_EQ(read_by(made("local", "{window: 5, back: 0, ahead: 2}"), 7, false), range(5, 19));
  EXPECT_EQ(read_by(made("local", "{window: 5, back: 1, ahead: 2}"), 12, true), range(5, 12));
  EXPECT_EQ(read_by(made("local", "{window: 5, back: 1, ahead: 1, exact_window: true}"), 12, false),
            range(7, 17));
}

TEST(Local, TheFirstTokenCanReadAndBeReadByAll) {
  const auto tokens = [](std::vector<int64_t> first, int64_t from, int64_t last) {
    for (int64_t j = from; j <= last; ++j) first.push_back(j);
    return first;
  };
  const auto read_first = made("local", "{window: 5, back: 0, ahead: 0, all_read_first: true}");
  EXPECT_EQ(read_by(read_first, 0, false), tokens({}, 0, 4));
  EXPECT_EQ(read_by(read_first, 3, false), tokens({}, 0, 4));
  EXPECT_EQ(read_by(read_first, 12, false), tokens({0}, 10, 14));
  EXPECT_EQ(read_by(read_first, 12, true), tokens({0}, 10, 12));
  const auto reads_all = made("local", "{window: 5, back: 0, ahead: 0, first_reads_all: true}");
  EXPECT_EQ(read_by(reads_all, 0, false), tokens({}, 0, 23));
  EXPECT_EQ(read_by(reads_all, 0, true), tokens({}, 0, 0));
  EXPECT_EQ(read_by(reads_all, 12, false), tokens({}, 10, 14));
}

TEST(Local, TheRingHoldsTheWindowWhateverTheCapacity) {
  const auto mixer = made("local", "{window: 4, back: 2}");
  State state;
  Context context;
  mixer->start(state, 3, 1000000, context);
  EXPECT_EQ(state.lane.at("keys").sizes(), at::IntArrayRef({3, 2, 4 * 3 + 1, 3}));
}

// Far behind the ring, by extensions that are longer than it and by single tokens.
TEST(Local, TheFirstTokenIsReadWhileDecoding) {
  const at::NoGradGuard no_grad;
  constexpr int64_t kTokens = 23;
  const auto mixer = made("local", "{window: 3, back: 1, all_read_first: true}");
  const auto x = random_normal({2, kTokens, kWidth}, 6);
  Context causal = {.mask = {.causal = true}};
  const auto want = (*mixer)(x, causal);
  for (const int64_t most : {1, 5, 23}) {
    State state;
    Context context;
    mixer->start(state, 2, 1000000, context);
    EXPECT_EQ(state.lane.at("keys").size(2), 3 * 2 + 1);
    for (int64_t first = 0; first < kTokens; first += most) {
      const int64_t count = std::min(most, kTokens - first);
      Context next;
      EXPECT_NEAR_TENSOR(mixer->extend(x.narrow(1, first, count), state, next),
                         want.narrow(1, first, count), tolerance(at::kDouble))
          << most << " " << first;
    }
  }
}

TEST(Local, RefusesWhatItCannotDo) {
  EXPECT_EQ(error_of([] { (void)made("local", "{shared_qk: true, official: true}"); }),
            "local options:1: local.shared_qk does not go with all_read_first, first_reads_all or "
            "official; leave one of them out");
  EXPECT_EQ(error_of([] { (void)made("local", "{window: 0}"); }),
            "local options:1: local.window is 0, out of range; it may be 1..65536");
  Context crossing = {.memory = random_normal({1, 4, kWidth}, 4)};
  EXPECT_EQ(error_of([&] {
              (*made("local", ""))(random_normal({1, 3, kWidth}, 5), crossing);
            }).find("local: cannot attend to a memory; mechanisms that do: "),
            0u);
}

}  // namespace
}  // namespace longbow
