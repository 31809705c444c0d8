#include "longbow/models/heads/span.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

EncoderConfig small() {
  EncoderConfig config;
  config.width = 8;
  config.layers = 1;
  config.max_length = 6;
  config.init = Init::xavier;
  return config;
}

TEST(SpanModel, GivesNoProbabilityToTokensOutsideTheContext) {
  SpanModel model(small(), 5, 1);
  const auto tokens = at::tensor({1, 2, 3, 4, 1, 0, 2, 3, 4, 1, 2, 3}, at::kLong).view({2, 6});
  const auto where =
      at::tensor({0, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1}, at::kLong).to(at::kBool).view({2, 6});
  Context context = {.mask = Mask::from_lengths(at::tensor({5, 6}, at::kLong), 6)};
  const auto logits = model(tokens, where, context);
  ASSERT_EQ(logits.sizes(), (at::IntArrayRef{2, 2, 6}));
  const auto p = logits.softmax(-1);
  const auto may = where.logical_and(context.mask.keep).unsqueeze(1).expand({2, 2, 6});
  EXPECT_NEAR_TENSOR(p.masked_fill(may, 0), at::zeros({2, 2, 6}), kExact);
  EXPECT_GT(p.masked_fill(may.logical_not(), 1).min().item<double>(), 0);
  Context again = {.mask = context.mask};
  EXPECT_GT(model(tokens, {}, again).softmax(-1).select(2, 0).min().item<double>(), 0)
      << "every real token is context when nothing else is said";
}

TEST(SpanModel, ARowWithoutContextStaysFinite) {
  SpanModel model(small(), 5, 1);
  Context context = {.mask = Mask::from_lengths(at::tensor({0}, at::kLong), 6)};
  const auto logits = model(at::zeros({1, 6}, at::kLong), {}, context);
  logits.log_softmax(-1).sum().backward();
  for (const auto& parameter : model.parameters())
    if (parameter.grad().defined()) EXPECT_TRUE(parameter.grad().isfinite().all().item<bool>());
}

Tensor logits_of(const std::vector<double>& starts, const std::vector<double>& ends) {
  return at::stack({at::tensor(starts, at::kDouble), at::tensor(ends, at::kDouble)}).unsqueeze(0);
}
std::vector<int64_t> best(const Tensor& logits, int64_t most) {
  const auto span = best_spans(logits, most)[0];
  return {span[0].item<int64_t>(), span[1].item<int64_t>()};
}
using Places = std::vector<int64_t>;

TEST(BestSpans, DoNotEndBeforeTheyStart) {
  // The largest logits alone would start at 3 and end at 0.
  const auto logits = logits_of({1, 0, 0, 5}, {6, 0, 4, 1});
  EXPECT_EQ(best(logits, 0), (Places{0, 0}));
  EXPECT_EQ(best(logits_of({1, 0, 0, 5}, {4, 0, 4, 1}), 0), (Places{3, 3}));
  EXPECT_EQ(best(logits_of({2, 0, 0, 1}, {0, 0, 0, 4}), 0), (Places{0, 3}));
}

TEST(BestSpans, HaveAtMostSoManyTokens) {
  const auto logits = logits_of({5, 0, 3, 0}, {0, 1, 0, 4});
  EXPECT_EQ(best(logits, 0), (Places{0, 3}));
  EXPECT_EQ(best(logits, 4), (Places{0, 3}));
  EXPECT_EQ(best(logits, 3), (Places{2, 3}));
  EXPECT_EQ(best(logits, 2), (Places{2, 3}));
  EXPECT_EQ(best(logits, 1), (Places{0, 0}));
}

TEST(BestSpans, AreThoseOfASearchThroughAll) {
  const auto logits = random_normal({40, 2, 9}, 3);
  for (const int64_t most : {0, 1, 2, 5, 8, 9, 20}) {
    const auto found = best_spans(logits, most);
    for (int64_t row = 0; row < 40; ++row) {
      double largest = -1e300;
      Places want;
      for (int64_t start = 0; start < 9; ++start)
        for (int64_t end = start; end < 9 && (most == 0 || end - start < most); ++end) {
          const double sum =
              logits[row][0][start].item<double>() + logits[row][1][end].item<double>();
          if (sum > largest) want = {start, end};
          largest = std::max(largest, sum);
        }
      ASSERT_EQ((Places{found[row][0].item<int64_t>(), found[row][1].item<int64_t>()}), want)
          << most;
    }
  }
}

}  // namespace
}  // namespace longbow
