#pragma once
// What a block does to every token by itself.
#include <array>
#include <string_view>

#include "longbow/core/fields.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/contract/part.h"
#include "longbow/nn/layers/layer_norm.h"
#include "longbow/ops/feed_forward.h"

namespace longbow {

enum class Activation { gelu, gelu_tanh, relu, silu };
constexpr std::array<std::string_view, 4> names_of(Activation) {
  return {"gelu", "gelu_tanh", "relu", "silu"};
}
kernels::Curve curve_of(Activation activation);
Tensor activated(const Tensor& x, Activation activation);

enum class FeedForwardKind { dense, glu, sparse, none };
constexpr std::array<std::string_view, 4> names_of(FeedForwardKind) {
  return {"dense", "glu", "sparse", "none"};
}

enum class Controller { trax, gumbel_softmax };
constexpr std::array<std::string_view, 2> names_of(Controller) {
  return {"trax", "gumbel_softmax"};
}

// Of each group of units one works for a token, and a small controller says which
// (Jaszczur et al., 2021, arXiv:2111.12763).
struct SparseUnits {
  int64_t group = 32;
  int64_t rank = 0;
  Controller controller = Controller::trax;
  double temperature = 0.1, hard = 0.3;
  bool weigh = false, scale_output = false;
};
template <class V>
void fields(V& v, SparseUnits& c) {
  v("group", c.group, "units of which one works for a token", at_least(1));
  v("rank", c.rank, "inner width of the controller; 0 = width / group, at least 1", at_least(0));
  v("controller", c.controller,
    "of the training: noise scaled by the temperature and a soft mask without noise, or a Gumbel "
    "softmax");
  v("temperature", c.temperature, "of the noise, or of the Gumbel softmax", range(1e-6, 100));
  v("hard", c.hard, "probability of a hard choice in a training step; otherwise the mask is soft",
    range(0, 1));
  v("weigh", c.weigh, "multiply the working unit by its probability");
  v("scale_output", c.scale_output, "start the second matrix sqrt(group) times as large");
}

struct FeedForwardConfig {
  FeedForwardKind kind = FeedForwardKind::dense;
  int64_t width = 0;
  Activation activation = Activation::gelu;
  int64_t chunk = 0;
  SparseUnits sparse = {};

  int64_t inner(int64_t model) const;  // width, or what 0 stands for in a model of that width
};
// OptionError, with the keys of a block, when the options do not go together.
void check_feed_forward(const FeedForwardConfig& config, int64_t width);

// dense: down(act(up(x))). glu: down(act(gate(x)) * up(x)). sparse: down(relu(up(x) * mask(x))).
class FeedForward : public Part {
 public:
  FeedForward(const Site& site, const FeedForwardConfig& config);
  Tensor operator()(const Tensor& x, Context& context);
  // x + dropout(the layer of norm(x)).
  Tensor added(const Tensor& x, const LayerNorm& norm, const Drop& drop, Context& context);

 private:
  Tensor fed(const Tensor& x, Context& context);
  Tensor fed_sparsely(const Tensor& x, Context& context);
  Tensor gathered(const Tensor& x, const Tensor& logits) const;
  Tensor unit_mask(const Tensor& logits, Context& context) const;

  FeedForwardConfig config_;
  std::string path_;
  std::shared_ptr<Linear> up_, gate_, down_, squeeze_, choose_;
};

}  // namespace longbow
