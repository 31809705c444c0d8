#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 6;
const Site kSite = {.shape = {.width = kWidth, .heads = 2, .max_length = 64}, .init = "xavier"};

// [N, N]: i div W - back <= j div W <= i div W + ahead, pair by pair, and what the first token has
// beside that.
Tensor reach(const Node& options, int64_t length, bool causal) {
  const int64_t w = as_integer(*options.find("window"), "window");
  const int64_t back = as_integer(*options.find("back"), "back");
  const int64_t ahead = causal ? 0 : as_integer(*options.find("ahead"), "ahead");
  const auto is = [&](const char* key) { return as_boolean(*options.find(key), key); };
  const bool exact = is("exact_window");
  auto visible = at::zeros({length, length}, at::kDouble);
  for (int64_t i = 0; i < length; ++i)
    for (int64_t j = 0; j < length; ++j) {
      const bool near = i / w - back <= j / w && j / w <= i / w + ahead;
      const bool first =
          (j == 0 && is("all_read_first")) || (i == 0 && !causal && is("first_reads_all"));
      if (first || (near && (!exact || std::abs(i - j) <= back * w))) visible[i][j] = 1;
    }
  return visible;
}

const bool registered = oracle::add("local", [](const torch::nn::Module& mixer, const Node& options,
                                                const Site& site, const Tensor& x,
                                                const Context& context) {
  return oracle::multi_head(
      mixer, site, x, context,
      [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
        return oracle::softmax(q, k, v, visible * reach(options, x.size(1), context.mask.causal));
      });
});

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
