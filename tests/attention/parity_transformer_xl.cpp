#include "longbow/nn/layers/block.h"
#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// Names of a layer's tensors in a case; `prefix` is that of the layer.
void set_attention(const Case& c, Weights& weights, const std::string& ours,
                   const std::string& theirs) {
  const std::pair<const char*, const char*> names[] = {{"query", "wq"},
                                                       {"key", "wk"},
                                                       {"value", "wv"},
                                                       {"output", "wo"},
                                                       {"relative.position", "wr"}};
  for (const auto& [name, recorded] : names)
    weights.set(ours + name + ".weight", c.at(theirs + recorded), theirs + recorded);
}

void expect_segment(const Case& c, const std::string& s, const Tensor& got) {
  EXPECT_NEAR_TENSOR(got, c.at("y" + s), (Tolerance{1e-12, 1e-12})) << c.name << " " << s;
}

// Two segments of other lengths: the second reads the whole first, without a gradient, and each
// query is normalised with what it adds to.
void check_attention(const Case& c) {
  const auto x1 = c.at("x1").requires_grad_(), x2 = c.at("x2").requires_grad_();
  const int64_t width = x1.size(2);
  const auto mixer =
      make_mixer("transformer_xl",
                 {.shape = {.width = width,
                            .heads = c.integer("heads"),
                            .head_width = c.integer("head_width")},
                  .bias = false},
                 "{memory: " + std::to_string(x1.size(1) + x2.size(1)) +
                     ", clamp: " + std::to_string(std::max<int64_t>(c.integer("clamp"), 0)) + "}");
  Weights weights(mixer);
  set_attention(c, weights, "", "");
  weights.set("relative.u", c.at("u"), "u");
  weights.set("relative.v", c.at("v_bias"), "v_bias");
  const auto gain = c.at("ln1_gain").requires_grad_(), bias = c.at("ln1_bias").requires_grad_();
  State state;
  Context context;
  mixer->start(state, x1.size(0), 0, context);
  Tensor loss;
  for (const auto& [x, s] : {std::pair(x1, "1"), std::pair(x2, "2")}) {
    Context next;
    const auto y = at::layer_norm(x + mixer->extend(x, state, next), {width}, gain, bias,
                                  c.number("eps", 1e-5));
    state.detach();
    expect_segment(c, s, y);
    const auto term = (y * c.at(std::string("g") + s)).sum();
    loss = loss.defined() ? loss + term : term;
  }
  loss.backward();
  for (const auto& [leaf, name] : {std::pair(x1, "x1"), std::pair(x2, "x2"),
                                   std::pair(gain, "ln1_gain"), std::pair(bias, "ln1_bias")})
    expect_gradient(c, name, leaf.grad());
  weights.expect_gradients(c);
}

// Blocks over segments, from the library's rows of zero.
void check_model(const Case& c) {
  const int64_t width = c.at("x1").size(2), layers = c.integer("layers");
  const auto shared = std::make_shared<Shared>();
  const auto options = "{memory: " + std::to_string(c.integer("mem_len")) + ", segment: " +
                       std::to_string(c.flag("same_length") ? 0 : c.at("x1").size(1)) +
                       ", clamp: " + std::to_string(std::max<int64_t>(c.integer("clamp"), 0)) +
                       ", zero_start: true}";
  std::vector<Block> blocks;
  std::vector<Weights> weights;
  for (int64_t l = 0; l < layers; ++l) {
    const auto theirs = "layer" + std::to_string(l) + ".";
    const Site site = {.shape = {.width = width,
                                 .heads = c.integer("heads"),
                                 .head_width = c.integer("head_width")},
                       .path = theirs,
                       .bias = false,
                       .layer = l,
                       .layers = layers,
                       .shared = shared};
    blocks.push_back(residual(
        site, make_mixer("transformer_xl", site, options),
        {.residual = Residual::post_norm,
         .feed_forward = {.width = c.at(theirs + "w1").size(0), .activation = Activation::relu},
         .norm_epsilon = c.number("eps", 1e-5)}));
    auto& own = weights.emplace_back(blocks.back());
    set_attention(c, own, "mixer.", theirs);
    const std::pair<const char*, const char*> names[] = {
        {"feed_forward.up.weight", "w1"},         {"feed_forward.up.bias", "b1"},
        {"feed_forward.down.weight", "w2"},       {"feed_forward.down.bias", "b2"},
        {"mixer_norm.weight", "ln1_gain"},        {"mixer_norm.bias", "ln1_bias"},
        {"feed_forward_norm.weight", "ln2_gain"}, {"feed_forward_norm.bias", "ln2_bias"}};
    for (const auto& [name, recorded] : names)
      own.set(name, c.at(theirs + recorded), theirs + recorded);
  }
  Weights common(shared);
  common.set("relative_u", c.at("u"), "u");
  common.set("relative_v", c.at("v_bias"), "v_bias");

  std::vector<State> states(blocks.size());
  for (size_t l = 0; l < blocks.size(); ++l) {
    Context context;
    blocks[l]->start(states[l], c.at("x1").size(0), 0, context);
  }
  std::map<std::string, Tensor> inputs;
  Tensor loss;
  for (int64_t i = 1; c.has("x" + std::to_string(i)); ++i) {
    const auto s = std::to_string(i);
    auto x = inputs["x" + s] = c.at("x" + s).requires_grad_();
    Context context;
    for (size_t l = 0; l < blocks.size(); ++l) {
      x = blocks[l]->extend(x, states[l], context);
      states[l].detach();
    }
    expect_segment(c, s, x);
    const auto term = (x * c.at("g" + s)).sum();
    loss = loss.defined() ? loss + term : term;
  }
  loss.backward();
  for (const auto& [name, x] : inputs) expect_gradient(c, name, x.grad());
  for (const auto& own : weights) own.expect_gradients(c);
  common.expect_gradients(c);
}

const Reader attention("transformer_xl-attention", {check_attention});
const Reader model("transformer_xl-model", {check_model});

}  // namespace
}  // namespace longbow::parity
