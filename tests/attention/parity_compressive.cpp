#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// The library cuts its table of positions from the front, so that the row of a distance moves while
// the memories fill: with K keys, distance d has row K - 1 - d. Each segment therefore gets a layer
// with its own table, which reads the segments before it as that layer's memory does.
struct Segments {
  const Case& c;
  int64_t tokens, memory, slots, rate;

  explicit Segments(const Case& of)
      : c(of),
        tokens(of.integer("seq_len")),
        memory(of.integer("mem_len")),
        slots(of.integer("cmem_len")),
        rate(of.integer("ratio")) {}

  int64_t keys(int64_t segment) const {
    const int64_t before = segment * tokens, evicted = std::max<int64_t>(before - memory, 0);
    return tokens + std::min(before, memory) + std::min(evicted / rate, slots);
  }

  std::string options() const {
    return "{memory: " + std::to_string(memory) + ", segment: " + std::to_string(tokens) +
           ", slots: " + std::to_string(slots) + ", rate: " + std::to_string(rate) +
           ", positions: " + (c.flag("positions") ? "learned}" : "sinusoids}");
  }
};

void set_weights(const Segments& s, const Mixer& mixer, Weights& weights, int64_t segment) {
  for (const auto& [name, suffix] : {std::pair("query", "q"), std::pair("key", "k"),
                                     std::pair("value", "v"), std::pair("output", "o")})
    weights.set_projection(s.c, name, suffix);
  weights.set("compressor.convolution.weight", s.c.at("compress").transpose(1, 2).flatten(1));
  weights.set("compressor.convolution.bias", s.c.at("compress_bias"));
  if (!s.c.flag("positions")) return;
  auto table = at::zeros_like(mixer->named_parameters()["relative.table"]);
  const int64_t keys = s.keys(segment);
  table.narrow(1, 0, keys).copy_(s.c.at("pos").narrow(1, 0, keys).flip(1));
  weights.set("relative.table", table);
}

void check_compressive(const Case& c) {
  const Segments s(c);
  std::vector<Tensor> inputs;
  for (int64_t i = 1; c.has("x" + std::to_string(i)); ++i)
    inputs.push_back(c.at("x" + std::to_string(i)).requires_grad_());
  const std::pair<const char*, const char*> names[] = {{"wq", "query.weight"},
                                                       {"wk", "key.weight"},
                                                       {"wv", "value.weight"},
                                                       {"wo", "output.weight"},
                                                       {"bo", "output.bias"}};
  Tensors gradients;
  const auto add = [&](const std::string& name, const Tensor& gradient) {
    auto& sum = gradients[name];
    sum = sum.defined() ? sum + gradient : gradient;
  };
  for (size_t last = 0; last < inputs.size(); ++last) {
    const auto mixer =
        make_mixer("compressive",
                   {.shape = {.width = inputs[0].size(2),
                              .heads = c.integer("heads"),
                              .head_width = c.at("wq").size(0) / c.integer("heads")}},
                   s.options());
    Weights weights(mixer);
    const auto number = std::to_string(last + 1);
    set_weights(s, mixer, weights, static_cast<int64_t>(last));
    State state;
    Context context;
    mixer->start(state, inputs[0].size(0), 0, context);
    Tensor y;
    for (size_t i = 0; i <= last; ++i) {
      Context next;
      y = mixer->extend(inputs[i], state, next);
      state.detach();
    }
    EXPECT_NEAR_TENSOR(y, c.at("y" + number), (Tolerance{1e-12, 1e-12})) << c.name << " " << number;
    (y * c.at("g_y" + number)).sum().backward();
    for (const auto& [theirs, ours] : names) add(theirs, weights.gradient(ours));
    if (c.flag("positions")) {
      const int64_t keys = s.keys(static_cast<int64_t>(last));
      const auto rows = weights.gradient("relative.table").narrow(1, 0, keys).flip(1);
      add("pos", at::constant_pad_nd(rows, {0, 0, 0, c.at("pos").size(1) - keys}));
    }
    if (last + 1 < inputs.size()) continue;
    for (const auto& [lane, recorded] :
         {std::pair("memory", "mem_final"), std::pair("slots", "cmem_final")}) {
      const auto want = c.at(recorded), rows = state.lane.at(lane);
      EXPECT_NEAR_TENSOR(rows.narrow(1, rows.size(1) - want.size(1), want.size(1)), want,
                         (Tolerance{1e-12, 1e-12}))
          << c.name << " " << recorded;
    }
  }
  for (const auto& [name, gradient] : gradients) expect_gradient(c, name, gradient);
  for (size_t i = 0; i < inputs.size(); ++i)
    expect_gradient(c, "x" + std::to_string(i + 1), inputs[i].grad());
}

const Reader compressive("compressive", {check_compressive});

}  // namespace
}  // namespace longbow::parity
