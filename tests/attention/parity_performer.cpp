#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

std::string text_of(double number) {
  return Node::number(number).text;
}

struct Recorded {
  std::string options;
  Setter omega;
};
// performer-pytorch adds eps_denominator to the sum of every key feature. Its features are those of
// softmax, none, or a function by its name.
Recorded options_of(const Case& c) {
  const auto features = c.text("features");
  std::string options = "{eps_sums: " + text_of(c.number("eps_denominator", 0));
  const auto eps = text_of(c.number("eps_features", 0));
  if (features == "softmax")
    options += ", map: softmax, eps_in_features: " + eps;
  else if (features == "none")
    options += ", map: no_projection";
  else
    options += ", map: generalised, kernel: " + features + ", epsilon: " + eps;
  if (!c.has("projection"))
    return {options + (features == "softmax" || features == "none" ? "}" : ", projection: false}"),
            {}};
  const auto projection = c.at("projection");
  return {options + ", features: " + std::to_string(projection.size(0)) + "}",
          [=](Layer& layer) { layer.set("attention.omega", projection.unsqueeze(0)); }};
}

// The largest exponent of all keys, the future included, stands beside eps in the causal form of
// the reference; only its last row is what a row without a mask computes.
void check_last_row(Case c, const Recorded& recorded) {
  c.config["causal"] = Node::boolean(false);
  const int64_t n = c.at("x").size(1);
  auto rows = at::zeros({1, n, 1}, at::kDouble);
  rows.narrow(1, n - 1, 1).fill_(1);
  check_projected(c, "performer", recorded.options, recorded.omega, {.rows = rows});
}

void check_lucid(const Case& c) {
  const auto recorded = options_of(c);
  if (c.flag("causal") && c.text("features") == "softmax" && c.number("eps_features", 0) > 0)
    check_last_row(c, recorded);
  else
    check_projected(c, "performer", recorded.options, recorded.omega);
}

void check_idiap(const Case& c) {
  const auto projection = c.at("projection");
  const bool mirrored = c.text("features") == "favor_hyperbolic";
  check_core(c, "performer",
             "{map: " + std::string(mirrored ? "hyperbolic" : "softmax") +
                 ", features: " + std::to_string(projection.size(0) * (mirrored ? 2 : 1)) +
                 ", eps_denominator: " + text_of(c.number("eps", 0)) + "}",
             [=](Layer& layer) { layer.set("attention.omega", projection.unsqueeze(0)); },
             {.every_query = true});
}

const Reader lucid("performer", {check_lucid});
const Reader leaking("performer-causal-softmax", {check_lucid});
const SetAside partly(
    "performer-causal-softmax",
    "eps beside the largest exponent of all keys leaks the future: last row only");
const Reader idiap("linear-idiap-favor", {check_idiap});

}  // namespace
}  // namespace longbow::parity
