#include <sstream>

#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// The library fills a sequence up to a power of two with zeros, which are keys like any other
// unless there is a mask.
Case filled(Case c) {
  const int64_t tokens = c.at("x").size(1);
  int64_t length = c.integer("block");
  while (length < tokens) length *= 2;
  if (length == tokens || c.has("keep") || c.flag("causal")) return c;
  for (const auto* name : {"x", "y", "g"})
    c.tensors[name] = at::constant_pad_nd(c.at(name), {0, 0, 0, length - tokens});
  c.tensors["query_keep"] = (at::arange(length) < tokens).expand({c.at("x").size(0), length});
  c.tensors.erase("grad_x");
  return c;
}

void check_h1d(const Case& c) {
  std::ostringstream options;
  options.precision(17);
  options << "{coverage: siblings, block: " << c.integer("block")
          << ", epsilon: " << c.number("eps", 1e-8) << "}";
  check_projected(filled(c), "h1d", options.str());
}

const Reader lucid("h1d-lucid", {check_h1d});

}  // namespace
}  // namespace longbow::parity
