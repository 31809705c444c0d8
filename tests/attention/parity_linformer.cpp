#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// One head for keys and values is the same head in every place; V = K is the same projection twice.
void check_lucid(const Case& c) {
  const int64_t heads = c.integer("heads");
  const bool one = c.flag("one_kv_head"), tied = c.flag("share_kv");
  const auto x = c.at("x").requires_grad_();
  Layer layer("linformer",
              {.shape = {.width = x.size(2),
                         .heads = heads,
                         .head_width = c.integer("dim_head"),
                         .max_length = c.integer("seq_len")}},
              "{rank: " + std::to_string(c.integer("k")) + ", sharing: headwise}");
  const auto every_head = [&](const Tensor& w) { return one ? w.repeat({heads, 1}) : w; };
  layer.set("query.weight", c.at("wq"));
  layer.set("key.weight", every_head(c.at("wk")));
  layer.set("value.weight", every_head(c.at(tied ? "wk" : "wv")));
  layer.set("output.weight", c.at("wo"));
  layer.set("output.bias", c.at("bo"));
  layer.set("e", c.at("proj_k").t());
  layer.set("f", c.at(tied ? "proj_k" : "proj_v").t());
  expect_output(c, layer(x, {}), {});
  expect_gradient(c, "x", x.grad());
  expect_gradient(c, "wq", layer.gradient("query.weight"));
}

const Reader lucid("linformer-lucid", {check_lucid});
const SetAside tatp22("linformer-tatp22", "whole models: the importer is not there yet");

}  // namespace
}  // namespace longbow::parity
