#include "longbow/nn/features/feature_attention.h"
#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

void check_idiap(const Case& c) {
  check_core(c, "linear", "{epsilon: 1e-6}");
}

// Their queries carry a factor 1 / sqrt D. It scales the output, so it is in our output projection;
// causally it cancels but for the least denominator, which is larger by its inverse here.
void check_lucid(const Case& c) {
  TORCH_CHECK(c.integer("blindspot", 1) == 1, "a query here always sees its own block");
  const auto wo = c.at("wo");
  const double scale = 1 / std::sqrt(static_cast<double>(wo.size(1) / c.integer("heads")));
  if (c.flag("causal")) {
    const auto least = std::to_string(1e-3 / scale);
    check_projected(c, "linear",
                    "{map: softmax, key_map: exp, normaliser: clamp, epsilon: " + least + "}", {},
                    {.every_query = true});
    return;
  }
  Case ours = c;
  ours.tensors["wo"] = wo * scale;
  if (c.has("grad_wo")) ours.tensors["grad_wo"] = c.at("grad_wo") / scale;
  check_projected(ours, "linear", "{map: softmax, key_map: positions, normaliser: none}", {},
                  {.every_query = true});
}

// The sums alone: features and values of different widths, a scale, a state to begin with.
void check_sums(const Case& c) {
  const auto q = c.at("q").requires_grad_(), k = c.at("k").requires_grad_(),
             v = c.at("v").requires_grad_();
  const double scale = c.number("scale", 1 / std::sqrt(static_cast<double>(q.size(3))));
  State state;
  open_feature_sums(state, {.v = v}, k.size(3));
  Tensor initial;
  if (c.has("initial_state")) {
    initial = c.at("initial_state").requires_grad_();
    state.lane.at("sums") = at::constant_pad_nd(initial, {0, 1});
  }
  const bool elu = c.text("features").rfind("elu", 0) == 0;
  const auto features = [&](const Tensor& x) { return elu ? at::elu(x) + 1 : x; };
  const auto phi_q = features(q) * scale, phi_k = features(k);
  const auto sums = grow_feature_sums(phi_q, phi_k, v, state);
  expect_output(c, c.flag("normalize") ? sums.values / (sums.weights + 1e-10) : sums.values, {});
  if (!initial.defined())
    EXPECT_NEAR_TENSOR(feature_sums(phi_q, phi_k, v, true).values, sums.values,
                       (Tolerance{1e-12, 1e-12}));
  if (c.has("final_state"))
    EXPECT_NEAR_TENSOR(state.lane.at("sums").narrow(3, 0, v.size(3)), c.at("final_state"),
                       (Tolerance{1e-12, 1e-12}))
        << c.name;
  expect_gradient(c, "q", q.grad());
  expect_gradient(c, "k", k.grad());
  expect_gradient(c, "v", v.grad());
  if (initial.defined()) expect_gradient(c, "initial_state", initial.grad());
}

const Reader idiap("linear-idiap-elu", {check_idiap});
const Reader lucid("linear-lucid", {check_lucid});
const Reader sums("linear-attention", {check_sums});

}  // namespace
}  // namespace longbow::parity
