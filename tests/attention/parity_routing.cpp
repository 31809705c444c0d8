#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// The members are those that the library took: padding may be among its members, but not among
// ours.
void check_routing(const Case& c) {
  const bool shared = c.flag("shared_qk");
  const auto q = merge_heads(c.at("q")).requires_grad_(),
             v = merge_heads(c.at("v")).requires_grad_(),
             k = shared ? q : merge_heads(c.at("k")).requires_grad_();
  const int64_t heads = c.integer("heads"), inner = q.size(2);
  Layer layer(
      "routing", {.shape = {.width = 3 * inner, .heads = heads, .head_width = inner / heads}},
      "{clusters: " + std::to_string(c.integer("clusters")) + ", window: " +
          std::to_string(c.integer("window")) + ", memory: " + std::to_string(c.integer("mem")) +
          ", epsilon: 1e-5, shared: " + (shared ? "true}" : "false}"));
  const auto pick = [&](int64_t part) {
    auto weight = at::zeros({inner, 3 * inner}, at::kDouble);
    weight.narrow(1, part * inner, inner).copy_(at::eye(inner));
    return weight;
  };
  layer.set("query.weight", pick(0));
  if (!shared) layer.set("key.weight", pick(1));
  layer.set("value.weight", pick(2));
  layer.set("output.weight", pick(0).t());
  layer.set("centroids", c.at("means"));
  if (c.integer("mem") > 0) {
    layer.set("memory_key", c.at("mem_key"), "mem_key");
    layer.set("memory_value", c.at("mem_value"), "mem_value");
  }
  Choices choices = {.mode = Choices::Mode::replay,
                     .kept = {{".members_q", c.at("members_q").to(at::kLong)}}};
  if (!shared) choices.kept[".members_k"] = c.at("members_k").to(at::kLong);
  Context context = {.mask = mask_of(c), .choices = &choices};
  context.mask.causal = c.flag("causal");
  const auto y = layer(at::cat({q, k, v}, 2), context);
  const auto rows = c.has("keep") ? c.at("keep").unsqueeze(1).unsqueeze(-1) : Tensor();
  expect_output(c, split_heads(y.narrow(2, 0, inner), heads), rows);
  if (!probes_only(c, rows)) return;
  expect_gradient(c, "q", split_heads(q.grad(), heads));
  if (!shared) expect_gradient(c, "k", split_heads(k.grad(), heads));
  expect_gradient(c, "v", split_heads(v.grad(), heads));
  layer.expect_gradients(c);
}

// Without padding our members are the library's.
void check_members(const Case& c) {
  if (c.has("keep")) return;
  const auto q = c.at("q");
  const auto rows = q / q.norm(2, -1, true);
  const auto affinity = rows.matmul(c.at("means").transpose(-2, -1)).transpose(-2, -1);
  const auto best = std::get<1>(affinity.topk(c.integer("window"), -1));
  EXPECT_NEAR_TENSOR(std::get<0>(best.sort(-1)),
                     std::get<0>(c.at("members_q").to(at::kLong).sort(-1)), kExact)
      << c.name;
}

const Reader routing("routing-", {check_routing, check_members});

}  // namespace
}  // namespace longbow::parity
