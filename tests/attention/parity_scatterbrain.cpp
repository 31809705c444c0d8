#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

void check_local(const Case& c) {
  const auto projection = c.at("projection");
  check_core(c, "scatterbrain",
             "{window: " + std::to_string(c.integer("local_context")) +
                 ", features: " + std::to_string(2 * projection.size(0)) + "}",
             [=](Layer& layer) { layer.set("attention.omega", projection.unsqueeze(0)); },
             {.every_query = true});
}

const Reader local("scatterbrain-local", {check_local});

}  // namespace
}  // namespace longbow::parity
