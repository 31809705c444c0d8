#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// The three forms of the reference have three rules for a small denominator.
void check_rfa(const Case& given) {
  auto c = given;
  const auto mode = c.text("mode");
  const std::map<std::string, std::string> rules = {
      {"dense", "clamp: magnitude, floor: 1e-3"},
      {"steps", "clamp: value, floor: 1"},
      {"cross", "clamp: magnitude, floor: 1"},
  };
  ASSERT_EQ(rules.count(mode), 1u) << c.name << ": mode " << mode;
  c.config["causal"] = Node::boolean(mode != "cross");
  const auto projection = c.at("projection");
  check_projected(c, "rfa",
                  "{feature_scale: 0.1, features: " + std::to_string(projection.size(1)) +
                      ", temperature: " + Node::number(c.number("tau", 1)).text + ", " +
                      rules.at(mode) + "}",
                  [&](Layer& layer) {
                    layer.set("attention.projections", projection);
                    layer.set("attention.sigma", c.at("sigma"));
                  },
                  {.gradients = {{"sigma", "attention.sigma"}}});
}

const Reader rfa("rfa", {check_rfa});

}  // namespace
}  // namespace longbow::parity
