#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// The authors' code: values are the queries, scores read the whole width.
void check_authors(const Case& c) {
  check_projected(c, "fastformer", "{share_qv: true, score_scope: full}",
                  [&](Layer& layer) {
                    layer.set("transform.weight", c.at("wr"), "wr");
                    layer.set("transform.bias", c.at("br"), "br");
                    for (const std::string which : {"q", "k"}) {
                      const std::string ours = which == "q" ? "query_score" : "key_score",
                                        theirs = "score_" + which;
                      layer.set(ours + ".weight", c.at(theirs), theirs);
                      layer.set(ours + ".bias", c.at(theirs + "_bias"), theirs + "_bias");
                    }
                  },
                  {.every_query = true});
}

// All heads have the same score vectors, so theirs have the sum of our gradients.
void check_lucid(const Case& c) {
  const int64_t heads = c.integer("heads");
  check_projected(c, "fastformer", "{global_key: keys, head_transform: true}",
                  [&](Layer& layer) {
                    layer.set("transform.weight", c.at("wr"), "wr");
                    layer.set("transform.bias", c.at("br"), "br");
                    layer.set("query_score", c.at("score_q").expand({heads, -1}));
                    layer.set("key_score", c.at("score_k").expand({heads, -1}));
                  },
                  {.every_query = true, .after = [&](const Layer& layer) {
                     expect_gradient(c, "score_q", layer.gradient("query_score").sum(0, true));
                     expect_gradient(c, "score_k", layer.gradient("key_score").sum(0, true));
                   }});
}

const Reader authors("fastformer-wuch15", {check_authors});
const Reader lucid("fastformer-lucid", {check_lucid});

}  // namespace
}  // namespace longbow::parity
