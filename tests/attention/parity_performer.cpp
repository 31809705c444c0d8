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
// performer-pytorch adds eps_denominator to the sum of every key feature.
Recorded options_of(const Case& c, const std::string& map) {
  std::string options = "{map: " + map + ", eps_sums: " + text_of(c.number("eps_denominator", 0));
  const double eps = c.number("eps_features", 0);
  if (map == "relu")
    options += ", epsilon: " + text_of(eps);
  else
    options += ", eps_in_features: " + text_of(eps);
  if (!c.has("projection")) return {options + "}", {}};
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
  const auto features = c.text("features");
  const auto recorded = options_of(c, features == "none" ? "no_projection" : features);
  if (c.flag("causal") && c.number("eps_features", 0) > 0 && features != "relu")
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
             [=](Layer& layer) { layer.set("attention.omega", projection.unsqueeze(0)); });
}

const Reader lucid("performer", {check_lucid});
const Reader idiap("linear-idiap-favor", {check_idiap});

}  // namespace
}  // namespace longbow::parity
