#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/models/linformer_pytorch/linformer.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

// In float64, evaluating.
template <class Net, class Config>
std::shared_ptr<Net> built(const Config& config) {
  auto net = std::make_shared<Net>(config, /*seed=*/3);
  net->to(at::kDouble);
  net->eval();
  return net;
}

Tensor tokens(int64_t rows, int64_t length, int64_t vocabulary, uint64_t seed) {
  return random_normal({rows, length}, seed).mul(1000).abs().to(at::kLong).remainder(vocabulary);
}

LinformerEncDecConfig pair() {
  LinformerEncDecConfig c;
  for (auto* side : {&c.enc, &c.dec}) {
    side->dim_k = 4;
    side->dim_ff = 10;
    side->nhead = 2;
  }
  c.enc.num_tokens = 13;
  c.enc.input_size = 10;
  c.enc.channels = 8;
  c.enc.emb_dim = 12;
  c.dec.num_tokens = 11;
  c.dec.input_size = 7;
  c.dec.channels = 6;
  return c;
}

TEST(LinformerEncDec, TheDecoderSeesAllOfTheSourceAndNothingOfItsFuture) {
  const auto net = built<LinformerEncDec>(pair());
  const auto source = tokens(2, 10, 13, 1), target = tokens(2, 7, 11, 2);
  const auto y = (*net)(source, target);
  ASSERT_EQ(y.sizes(), (std::vector<int64_t>{2, 7, 11}));
  auto later = target.clone();
  later.narrow(1, 4, 3).add_(1).remainder_(11);
  EXPECT_NEAR_TENSOR((*net)(source, later).narrow(1, 0, 4), y.narrow(1, 0, 4), kExact);
  auto end = source.clone();
  end.narrow(1, 9, 1).add_(1).remainder_(13);
  EXPECT_FALSE(at::allclose((*net)(end, target).narrow(1, 0, 1), y.narrow(1, 0, 1)));
}

TEST(LinformerEncDec, MasksHideSourceAndTargetTokens) {
  const auto net = built<LinformerEncDec>(pair());
  const auto source = tokens(2, 10, 13, 1), target = tokens(2, 7, 11, 2);
  const LinformerEncDec::Inputs inputs = {.input_mask = at::arange(10).expand({2, 10}) < 6,
                                          .target_mask = at::arange(7).expand({2, 7}) < 5};
  const auto y = (*net)(source, target, inputs).narrow(1, 0, 5);
  auto other = source.clone(), later = target.clone();
  other.narrow(1, 6, 4).add_(1).remainder_(13);
  later.narrow(1, 5, 2).add_(1).remainder_(11);
  EXPECT_NEAR_TENSOR((*net)(other, later, inputs).narrow(1, 0, 5), y, (Tolerance{1e-12, 0}));
  EXPECT_FALSE(at::allclose((*net)(source, target).narrow(1, 0, 5), y));
}

TEST(LinformerEncDec, TokenByTokenItIsTheWholeTarget) {
  const auto net = built<LinformerEncDec>(pair());
  const auto source = tokens(2, 10, 13, 1), target = tokens(2, 7, 11, 2);
  const LinformerEncDec::Inputs inputs = {.input_mask = at::arange(10).expand({2, 10}) < 6};
  State state;
  net->start(state, source, 7, inputs);
  std::vector<Tensor> parts;
  for (const auto& piece : target.split({1, 4, 2}, 1)) parts.push_back(net->extend(piece, state));
  EXPECT_NEAR_TENSOR(at::cat(parts, 1), (*net)(source, target, inputs), (Tolerance{1e-12, 0}));
}

TEST(LinformerEncDec, WithoutATargetTheSourceIsRead) {
  auto c = pair();
  c.dec.input_size = 10;
  c.dec.num_tokens = 13;
  const auto net = built<LinformerEncDec>(c);
  const auto source = tokens(2, 10, 13, 1);
  EXPECT_NEAR_TENSOR((*net)(source), (*net)(source, source), kExact);
}

TEST(LinformerEncDec, SizesOfTheTwoSidesAreEqualInTheOriginal) {
  auto c = pair();
  c.compatible = true;
  EXPECT_EQ(error_of([&] { LinformerEncDec net(c); }),
            "linformer: linformer-pytorch's embeddings have the shape of the input; make the sizes "
            "equal, or drop compatible");
}

TEST(LinformerLM, PositionsCountRealTokens) {
  LinformerLMConfig c;
  c.num_tokens = 9;
  c.input_size = 6;
  c.channels = 8;
  c.dim_k = 3;
  c.nhead = 2;
  const auto net = built<LinformerLM>(c);
  const auto right = at::tensor({4, 5, 6, 7, 0, 0}).unsqueeze(0),
             left = at::tensor({0, 0, 4, 5, 6, 7}).unsqueeze(0);
  const auto kept = at::arange(6).unsqueeze(0);
  const auto y = (*net)(right, {.input_mask = kept < 4}),
             z = (*net)(left, {.input_mask = kept >= 2});
  EXPECT_NEAR_TENSOR(z.narrow(1, 2, 4), y.narrow(1, 0, 4), (Tolerance{1e-12, 0}));
}

}  // namespace
}  // namespace longbow
