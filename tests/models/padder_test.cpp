#include "longbow/models/linformer_pytorch/padder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

// Two layers: zeros of the first have no keys, but what it makes of them has.
LinformerConfig config(int64_t input_size) {
  return {
      .input_size = input_size, .channels = 8, .dim_k = 4, .dim_ff = 10, .nhead = 2, .depth = 2};
}

std::shared_ptr<Linformer> built(const LinformerConfig& config) {
  auto net = std::make_shared<Linformer>(config, 3);
  net->to(at::kDouble);
  net->eval();
  return net;
}

Tensor padded(const Tensor& x, int64_t length) {
  return at::constant_pad_nd(x, {0, 0, 0, length - x.size(1)});
}

TEST(Padder, HidesWhatItAdds) {
  const auto net = built(config(12));
  const auto x = random_normal({2, 9, 8}, 1);
  const auto mask = (at::arange(12) < 9).expand({2, 12});
  EXPECT_NEAR_TENSOR((*std::make_shared<Padder>(net))(x),
                     (*net)(padded(x, 12), {.input_mask = mask}).narrow(1, 0, 9), kExact);
}

TEST(Padder, WithoutAMaskWhatItAddsTakesPartAsInTheOriginal) {
  const auto net = built(config(12));
  const auto x = random_normal({2, 9, 8}, 1);
  Padder plain(net, /*masked=*/false);
  EXPECT_NEAR_TENSOR(plain(x), (*net)(padded(x, 12)).narrow(1, 0, 9), kExact);
  EXPECT_FALSE(at::allclose(plain(x), Padder(net)(x)));
}

TEST(Padder, KeepsAGivenMask) {
  const auto net = built(config(12));
  const auto x = random_normal({2, 9, 8}, 1);
  const auto short_mask = (at::arange(9) < 6).expand({2, 9}),
             mask = (at::arange(12) < 6).expand({2, 12});
  EXPECT_NEAR_TENSOR(Padder(net)(x, {.input_mask = short_mask}),
                     (*net)(padded(x, 12), {.input_mask = mask}).narrow(1, 0, 9), kExact);
}

TEST(Padder, FillsEmbeddingsUpToo) {
  auto c = config(12);
  c.decoder_mode = true;
  c.embeddings_size = 10;
  const auto net = built(c);
  const auto x = random_normal({2, 9, 8}, 1), e = random_normal({2, 7, 8}, 2);
  EXPECT_NEAR_TENSOR(
      Padder(net)(x, {.embeddings = e}),
      (*net)(padded(x, 12), {.input_mask = (at::arange(12) < 9).expand({2, 12}),
                             .embeddings = padded(e, 10),
                             .embeddings_mask = (at::arange(10) < 7).expand({2, 10})})
          .narrow(1, 0, 9),
      kExact);
}

TEST(Padder, FillsTokensUpWithTokenZero) {
  LinformerLMConfig c;
  c.num_tokens = 9;
  c.input_size = 12;
  c.channels = 8;
  c.dim_k = 4;
  c.nhead = 2;
  const auto net = std::make_shared<LinformerLM>(c, 3);
  net->eval();
  const auto ids = at::arange(1, 6).unsqueeze(0);
  EXPECT_NEAR_TENSOR(Padder(net, false)(ids),
                     (*net)(at::constant_pad_nd(ids, {0, 7})).narrow(1, 0, 5), kExact);
  EXPECT_EQ(Padder(net)(ids).sizes(), (std::vector<int64_t>{1, 5, 9}));
}

TEST(Padder, RefusesLongerInputs) {
  Padder padder(built(config(12)));
  EXPECT_TRUE(error_of([&] {
                padder(random_normal({1, 13, 8}, 1));
              }).starts_with("padder: x is [1, 13, 8], but the net takes at most 12 tokens"));
}

}  // namespace
}  // namespace longbow
