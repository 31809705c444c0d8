#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

void check_longformer(const Case& c) {
  const bool global = c.has("global_tokens");
  check_projected(c, "longformer",
                  "{window: " + std::to_string(c.integer("one_sided")) +
                      ", global_tokens: 0, global_projections: " + (global ? "true}" : "false}"),
                  [&](Layer& layer) {
                    if (!global) return;
                    layer.set_projection(c, "global_query", "q_global");
                    layer.set_projection(c, "global_key", "k_global");
                    layer.set_projection(c, "global_value", "v_global");
                  });
}

const Reader longformer("longformer", {check_longformer});

}  // namespace
}  // namespace longbow::parity
