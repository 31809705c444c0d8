#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

std::string text_of(bool flag) {
  return flag ? "true" : "false";
}

// In float64 a token that is alone stands at a score of -1e5 there, where numbers are coarser.
constexpr double kPrecision = 1e-11;

// One layer with the recorded buckets [B, H, rounds, N].
void check_layer(const Case& c, const std::string& options, const Tensor& buckets) {
  const auto x = c.at("x").requires_grad_();
  const int64_t heads = c.integer("heads", 1), inner = c.at("wqk").size(0);
  Layer layer("reformer",
              {.shape = {.width = x.size(2),
                         .heads = heads,
                         .head_width = inner / heads,
                         .max_length = x.size(1)}},
              options);
  layer.set("query.weight", c.at("wqk"), "wqk");
  layer.set_projection(c, "value", "v");
  layer.set_projection(c, "output", "o");
  Choices choices = {.mode = Choices::Mode::replay, .kept = {{".buckets", buckets.to(at::kLong)}}};
  Context context = {.mask = mask_of(c), .choices = &choices};
  context.mask.ragged = false;  // the buckets are those of the tokens where they stand
  const auto rows = c.has("keep") ? c.at("keep").unsqueeze(-1) : Tensor();
  expect_output(c, layer(x, context).narrow(2, 0, c.at("y").size(2)), rows, kPrecision);
  if (!probes_only(c, rows)) return;
  expect_gradient(c, "x", x.grad());
  layer.expect_gradients(c);
}

void check_lsh(const Case& c) {
  check_layer(c,
              "{ring: true, chunk: " + std::to_string(c.integer("chunk")) +
                  ", rounds: " + std::to_string(c.integer("rounds")) +
                  ", back: " + std::to_string(c.integer("before")) +
                  ", ahead: " + std::to_string(c.integer("after")) + "}",
              c.tensors.at("buckets"));
}

std::string lucid_options(const Case& c) {
  return "{ring: true, scaled: true, epsilon: 1e-30, chunk: " +
         std::to_string(c.integer("bucket_size")) +
         ", rounds: " + std::to_string(c.integer("n_hashes")) +
         ", same_bucket: " + text_of(!c.flag("attend_across_buckets")) +
         ", deduplicate: " + text_of(!c.flag("allow_duplicate_attention")) + "}";
}
void check_lucid_layer(const Case& c) {
  check_layer(c, lucid_options(c), c.tensors.at("buckets"));
}

// Without projections: one head of tokens that hold queries and values, and identities for weights.
void check_lucid(const Case& c) {
  Case whole = c;
  const auto eye = at::eye(c.at("v").size(2), at::kDouble);
  whole.tensors["x"] = at::cat({c.at("qk"), c.at("v")}, 2);
  whole.tensors["wqk"] = at::constant_pad_nd(eye, {0, eye.size(0)});
  whole.tensors["wv"] = at::constant_pad_nd(eye, {eye.size(0), 0});
  whole.tensors["wo"] = at::constant_pad_nd(eye, {0, 0, 0, eye.size(0)});
  if (c.has("grad_qk")) whole.tensors["grad_x"] = at::cat({c.at("grad_qk"), c.at("grad_v")}, 2);
  check_layer(whole, lucid_options(c), c.tensors.at("buckets").unsqueeze(1));
}

// Two reversible blocks on the streams x and x; y is the norm of both beside each other.
void check_reversible(const Case& c) {
  const auto x = c.at("x").requires_grad_();
  const int64_t heads = c.integer("heads"), rounds = c.integer("rounds");
  const auto near = std::to_string(c.integer("before")), ahead = std::to_string(c.integer("after"));
  const std::string options[] = {
      "{wrap: true, window: " + std::to_string(c.integer("local_chunk")) + ", back: " + near +
          ", ahead: " + ahead + "}",
      "{ring: true, chunk: " + std::to_string(c.integer("chunk")) +
          ", rounds: " + std::to_string(rounds) + ", back: " + near + ", ahead: " + ahead + "}"};
  Choices choices = {.mode = Choices::Mode::replay,
                     .kept = {{".buckets", c.tensors.at("buckets").to(at::kLong)}}};
  Context context = {.choices = &choices};
  auto streams = at::cat({x, x}, 2);
  std::vector<Weights> layers;
  for (const int i : {0, 1}) {
    const auto of = "layer" + std::to_string(i) + ".";
    const Site site = {.shape = {.width = x.size(2),
                                 .heads = heads,
                                 .head_width = c.integer("head_width"),
                                 .max_length = x.size(1)},
                       .bias = false};
    const auto block = residual(
        site, make_mixer(i == 0 ? "local" : "reformer", site, options[i]),
        {.residual = Residual::reversible,
         .feed_forward = {.width = c.at(of + "w1").size(0), .activation = Activation::relu},
         .norm_epsilon = c.number("eps", 1e-12)});
    auto& weights = layers.emplace_back(block);
    const auto set = [&](const std::string& ours, const std::string& theirs) {
      if (c.has(of + theirs)) weights.set(ours, c.at(of + theirs), of + theirs);
    };
    set("mixer.query.weight", i == 0 ? "wq" : "wqk");
    set("mixer.key.weight", "wk");
    set("mixer.value.weight", "wv");
    set("mixer.output.weight", "wo");
    set("mixer_norm.weight", "ln1_gain");
    set("mixer_norm.bias", "ln1_bias");
    set("feed_forward_norm.weight", "ln2_gain");
    set("feed_forward_norm.bias", "ln2_bias");
    set("feed_forward.up.weight", "w1");
    set("feed_forward.up.bias", "b1");
    set("feed_forward.down.weight", "w2");
    set("feed_forward.down.bias", "b2");
    streams = block->forward(streams, context);
  }
  const auto gain = c.at("ln_gain").requires_grad_(), bias = c.at("ln_bias").requires_grad_();
  expect_output(c, at::layer_norm(streams, {2 * x.size(2)}, gain, bias, c.number("eps", 1e-12)), {},
                kPrecision);
  expect_gradient(c, "x", x.grad());
  expect_gradient(c, "ln_gain", gain.grad());
  expect_gradient(c, "ln_bias", bias.grad());
  for (const auto& layer : layers) layer.expect_gradients(c);
}

const Reader reversible("reformer-reversible", {check_reversible});
const Reader hf("reformer-lsh", {check_lsh});
const Reader lucid("reformer", {check_lucid});
const Reader lucid_layer("reformer-layer", {check_lucid_layer});

}  // namespace
}  // namespace longbow::parity
