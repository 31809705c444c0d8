#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

std::string options_of(const Case& c, const std::string& segments, bool batch, bool shortcut) {
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  return "{landmarks: " + std::to_string(c.integer("landmarks")) +
         ", steps: " + std::to_string(c.integer("iterations")) +
         ", conv: " + std::to_string(c.integer("conv", 0)) + ", segments: " + segments +
         ", start: " + (batch ? "batch" : "matrix") + ", shortcut: " + flag(shortcut) + "}";
}

Setter filter_of(const Case& c) {
  return [&](Layer& layer) {
    if (!c.has("conv")) return;
    const auto filter = c.at("conv");
    layer.set("attention.conv", filter.reshape({filter.size(0), -1}));
  };
}

void check_authors(const Case& c) {
  check_core(c, "nystromformer", options_of(c, "zeroed", !c.flag("exact"), true), filter_of(c));
}

void check_transformers(const Case& c) {
  check_projected(c, "nystromformer", options_of(c, "all", true, c.flag("exact")), filter_of(c));
}

void check_lucid(const Case& c) {
  check_projected(c, "nystromformer", options_of(c, "left", true, false), filter_of(c));
}

const Reader authors("nystrom-mlpen", {check_authors});
const Reader transformers("nystromformer", {check_transformers});
const Reader lucid("nystrom-lucid", {check_lucid});

}  // namespace
}  // namespace longbow::parity
