#include "longbow/nn/slots/slots.h"
#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// q, k, v and the logits of the control are channels of one token, and each projection picks its
// own. Values are as wide as keys in a layer: the narrower of the two are filled up with zeros.
void check_layer(const Case& c) {
  const int64_t heads = c.at("q").size(1), key = c.at("q").size(3), value = c.at("v").size(3),
                width = std::max(key, value), slots = c.at("slots").size(3);
  std::map<std::string, Tensor> leaves;
  std::vector<Tensor> channels;
  std::vector<std::pair<int64_t, int64_t>> places;  // first channel, count
  int64_t total = 0;
  for (const std::string name : {"q", "k", "v", "slots"}) {
    leaves[name] = c.at(name).requires_grad_();
    auto rows = leaves[name];
    if (name != "slots") rows = at::constant_pad_nd(rows, {0, width - rows.size(3)});
    if (name == "q")  // the config's scale in place of the layer's own
      rows = rows * (c.number("scale", 1) * std::sqrt(static_cast<double>(width)));
    channels.push_back(merge_heads(rows));
    places.emplace_back(total, channels.back().size(2));
    total += channels.back().size(2);
  }
  Layer layer("abc",
              {.shape = {.width = total, .heads = heads, .head_width = width, .max_length = 64}},
              "{slots: " + std::to_string(slots) + "}");
  const auto pick = [&](size_t part) {
    auto weight = at::zeros({places[part].second, total}, at::kDouble);
    weight.narrow(1, places[part].first, places[part].second).copy_(at::eye(places[part].second));
    return weight;
  };
  layer.set("query.weight", pick(0));
  layer.set("key.weight", pick(1));
  layer.set("value.weight", pick(2));
  layer.set("attention.control", pick(3));
  layer.set("output.weight", pick(0).t());
  const auto y = layer(at::cat(channels, 2), {.mask = {.causal = true}});
  expect_output(c, split_heads(y.narrow(2, 0, heads * width), heads).narrow(3, 0, value), {});
  for (const auto& [name, leaf] : leaves) expect_gradient(c, name, leaf.grad());
}

// Decays and weights of writing are given one by one: what the gate of a layer hands on.
void check_gated(const Case& c) {
  std::map<std::string, Tensor> leaves;
  for (const std::string name : {"q", "k", "v", "slots", "log_decay"})
    leaves[name] = c.at(name).requires_grad_();
  Context context;
  const auto y =
      read_slots({.q = leaves["q"] * c.number("scale", 1), .k = leaves["k"], .v = leaves["v"]},
                 {.weights = leaves["slots"], .log_keep = leaves["log_decay"]}, {}, context);
  expect_output(c, y, {});
  for (const auto& [name, leaf] : leaves) expect_gradient(c, name, leaf.grad());
}

void check_abc(const Case& c) {
  c.has("log_decay") ? check_gated(c) : check_layer(c);
}

const Reader abc("abc", {check_abc});

}  // namespace
}  // namespace longbow::parity
