#include "longbow/ops/feed_forward.h"

#include <ATen/ATen.h>

#include "tests/ops/feeding.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;
using kernels::Curve;

Tensor by_definition(const Tensor& x, const FeedForwardLayer& l) {
  const auto centred = x - x.mean(-1, true);
  const auto n = centred / (centred.square().mean(-1, true) + l.epsilon).sqrt();
  const auto u = (n * l.norm_weight + l.norm_bias).matmul(l.up.t()) + l.up_bias;
  return x + curved(u, l.curve).matmul(l.down.t()) + l.down_bias;
}

TEST(FeedForwardOp, IsItsDefinition) {
  for (const auto curve : {Curve::gelu, Curve::gelu_tanh, Curve::relu, Curve::silu}) {
    const FedInputs in(5, 12, 20, at::kDouble);
    const auto want = in.results(at::kDouble, curve, 0, by_definition),
               got = in.results(at::kDouble, curve, 0, feed_forward);
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR_TENSOR(got[i], want[i], (Tolerance{1e-12, 1e-12})) << FedInputs::names()[i];
  }
}

TEST(FeedForwardOp, DropsWhatDropoutDrops) {
  const FedInputs in(5, 12, 20, at::kDouble);
  const auto layer = in.layer(at::kDouble, Curve::gelu, 0.3);
  auto whole = layer;
  whole.drop = {};
  const auto added = feed_forward(in.x, whole) - in.x;
  EXPECT_NEAR_TENSOR(feed_forward(in.x, layer).detach(),
                     (in.x + philox_dropout(added, layer.drop.key, layer.drop.site, 0.3)).detach(),
                     (Tolerance{1e-12, 1e-12}));
}

TEST(FeedForwardOp, SaysWhatDoesNotFit) {
  const FedInputs in(5, 12, 20, at::kDouble);
  auto layer = in.layer(at::kDouble, Curve::gelu, 0);
  layer.down_bias = at::zeros({13}, at::kDouble);
  EXPECT_EQ(error_of([&] { feed_forward(in.x, layer); }),
            "feed_forward: x is [2, 5, 12] and down_bias is [13], but needs [12]");
}

}  // namespace
}  // namespace longbow
