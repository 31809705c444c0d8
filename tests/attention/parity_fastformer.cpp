#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// The authors' code: values are the queries, scores read the whole width.
void check_fastformer(const Case& c) {
  const auto x = c.at("x").requires_grad_();
  Layer layer("fastformer",
              {.shape = {.width = x.size(2), .heads = c.integer("heads"), .max_length = 64}},
              "{share_qv: true, score_scope: full}");
  const std::pair<const char*, const char*> names[] = {
      {"query", "q"}, {"key", "k"}, {"transform", "r"}};
  for (const auto& [ours, theirs] : names) {
    layer.set(std::string(ours) + ".weight", c.at(std::string("w") + theirs));
    layer.set(std::string(ours) + ".bias", c.at(std::string("b") + theirs));
  }
  for (const std::string which : {"q", "k"}) {
    const std::string ours = which == "q" ? "query_score" : "key_score";
    layer.set(ours + ".weight", c.at("score_" + which));
    layer.set(ours + ".bias", c.at("score_" + which + "_bias"));
  }
  const auto mask = mask_of(c);
  expect_output(c, layer(x, {.mask = mask}), mask.keep.unsqueeze(-1).to(at::kDouble));
}

const Reader authors("fastformer-wuch15", {check_fastformer});
const SetAside lucid("fastformer-lucid",
                     "a global key of the raw keys, and one transform per head");

}  // namespace
}  // namespace longbow::parity
