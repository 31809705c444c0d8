// What public implementations compute, recorded with their inputs and weights: every case in the
// folder that LONGBOW_PARITY names (its README says how each output is formed) is reproduced, or is
// listed below with the reason why not. A case that is neither fails.
#include <ATen/ATen.h>

#include <cstdlib>
#include <filesystem>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/safetensors.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string name;
  Node config;
  Tensors tensors;

  bool has(const std::string& key) const { return tensors.count(key) > 0; }
  Tensor at(const std::string& key) const { return tensors.at(key).to(at::kDouble); }
  int64_t integer(const std::string& key) const { return as_integer(*config.find(key), key); }
  bool flag(const std::string& key) const { return as_boolean(*config.find(key), key); }
};

Case load_case(const fs::path& file) {
  auto loaded = load_safetensors(file.string());
  return {file.stem().string(), parse_json(loaded.metadata.at("config"), file.string()),
          std::move(loaded.tensors)};
}

// A layer in float64 whose parameters are set by name; what is not set is zero.
class Layer {
 public:
  Layer(const std::string& mechanism, const Site& site, const std::string& options)
      : mixer_(make_mixer(mechanism, site, options)) {
    mixer_->to(at::kDouble);
    const at::NoGradGuard no_grad;
    for (auto& parameter : mixer_->parameters()) parameter.zero_();
  }
  void set(const std::string& name, const Tensor& value) {
    const at::NoGradGuard no_grad;
    auto parameter = mixer_->named_parameters()[name];
    ASSERT_EQ(parameter.sizes(), value.sizes()) << name;
    parameter.copy_(value);
  }
  Tensor gradient(const std::string& name) const { return mixer_->named_parameters()[name].grad(); }
  Tensor operator()(const Tensor& x, Context context) { return (*mixer_)(x, context); }

 private:
  Mixer mixer_;
};

// Values to 1e-12; gradients were stored rounded to float32 in some folders.
void expect_gradient(const Case& c, const std::string& name, const Tensor& got) {
  if (!c.has("grad_" + name)) return;
  const auto want = c.at("grad_" + name);
  const double scale = std::max(1.0, want.abs().max().item<double>());
  EXPECT_NEAR_TENSOR(got, want, (Tolerance{2e-7 * scale, 0})) << c.name << ": gradient of " << name;
}

// Padded queries are not compared, and carry no gradient.
void expect_output(const Case& c, const Tensor& got, const Tensor& rows) {
  auto want = c.at("y"), weights = c.at("g");
  if (rows.defined()) {
    want = want * rows;
    weights = weights * rows;
  }
  EXPECT_NEAR_TENSOR(rows.defined() ? got * rows : got, want, (Tolerance{1e-12, 1e-12})) << c.name;
  (got * weights).sum().backward();
}

Mask mask_of(const Case& c) {
  Mask mask;
  if (c.config.find("causal")) mask.causal = c.flag("causal");
  if (c.has("keep")) {
    mask.keep = c.tensors.at("keep").to(at::kBool);
    mask.ragged = true;
  }
  return mask;
}

// x with wq, wk, wv, wo and whatever biases there are.
void check_projected(const Case& c, const std::string& mechanism, const std::string& options) {
  const auto x = c.at("x").requires_grad_();
  const std::string source = c.has("context") ? "context" : "memory";
  const bool crossing = c.has(source);
  const int64_t heads = c.integer("heads"), inner = c.at("wq").size(0);
  Context context = {.mask = mask_of(c)};
  if (crossing) context.memory = c.at(source).requires_grad_();
  Layer layer(
      mechanism,
      {.shape = {.width = x.size(2), .heads = heads, .head_width = inner / heads, .max_length = 64},
       .cross = crossing},
      options);
  const std::pair<const char*, const char*> names[] = {
      {"query", "q"}, {"key", "k"}, {"value", "v"}, {"output", "o"}};
  for (const auto& [ours, theirs] : names) {
    layer.set(std::string(ours) + ".weight", c.at(std::string("w") + theirs));
    if (c.has(std::string("b") + theirs))
      layer.set(std::string(ours) + ".bias", c.at(std::string("b") + theirs));
  }
  Tensor rows;
  if (context.mask.keep.defined() && !crossing)
    rows = context.mask.keep.unsqueeze(-1).to(at::kDouble);
  expect_output(c, layer(x, context), rows);
  expect_gradient(c, "x", x.grad());
  if (crossing) expect_gradient(c, source, context.memory.grad());
  for (const auto& [ours, theirs] : names)
    expect_gradient(c, std::string("w") + theirs, layer.gradient(std::string(ours) + ".weight"));
}

// q, k, v [B, H, N, D] without projections: they are laid side by side as channels of one token,
// and each projection picks its own.
void check_core(const Case& c, const std::string& mechanism, const std::string& options) {
  const auto* layout = c.config.find("layout");
  const bool tokens_first = layout && layout->text == "B,N,H,e";
  const auto channels = [&](const std::string& name) {
    const auto t = c.at(name);
    return merge_heads(tokens_first ? t.transpose(1, 2) : t);
  };
  const auto q = channels("q").requires_grad_(), k = channels("k").requires_grad_(),
             v = channels("v").requires_grad_();
  const int64_t heads = c.at("q").size(tokens_first ? 2 : 1), inner = q.size(2);
  const bool crossing = q.size(1) != k.size(1);
  Layer layer(
      mechanism,
      {.shape = {.width = 3 * inner, .heads = heads, .head_width = inner / heads, .max_length = 64},
       .cross = crossing},
      options);
  const auto pick = [&](int64_t part) {
    auto weight = at::zeros({inner, 3 * inner}, at::kDouble);
    weight.narrow(1, part * inner, inner).copy_(at::eye(inner));
    return weight;
  };
  layer.set("query.weight", pick(0));
  layer.set("key.weight", pick(1));
  layer.set("value.weight", pick(2));
  layer.set("output.weight", pick(0).t());
  Context context = {.mask = mask_of(c)};
  Tensor x;
  if (!crossing) {
    x = at::cat({q, k, v}, 2);
  } else {
    context.memory = at::cat({at::zeros_like(k), k, v}, 2);
    x = at::cat({q, at::zeros_like(q), at::zeros_like(q)}, 2);
  }
  auto y = split_heads(layer(x, context).narrow(2, 0, inner), heads);
  if (tokens_first) y = y.transpose(1, 2);
  Tensor rows;
  if (context.mask.keep.defined() && !crossing) {
    rows = context.mask.keep.to(at::kDouble);
    rows = tokens_first ? rows.unsqueeze(-1).unsqueeze(-1) : rows.unsqueeze(1).unsqueeze(-1);
  }
  expect_output(c, y, rows);
  const auto back = [&](const Tensor& gradient) {
    const auto by_head = split_heads(gradient, heads);
    return tokens_first ? by_head.transpose(1, 2) : by_head;
  };
  if (rows.defined()) return;  // the probe weighs padded rows, which are not ours to match
  expect_gradient(c, "q", back(q.grad()));
  expect_gradient(c, "k", back(k.grad()));
  expect_gradient(c, "v", back(v.grad()));
}

void check_cosformer(const Case& c) {
  check_projected(c, "cosformer",
                  "{max_length: " + std::to_string(c.integer("M")) + ", memory: positions}");
}

// One head for keys and values is the same head in every place; V = K is the same projection twice.
void check_linformer(const Case& c) {
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

void check_local(const Case& c) {
  check_core(c, "local",
             "{window: " + std::to_string(c.integer("window")) +
                 ", back: " + std::to_string(c.integer("look_backward")) +
                 ", ahead: " + std::to_string(c.integer("look_forward")) +
                 ", exact_window: " + (c.flag("exact") ? "true}" : "false}"));
}

void check_fnet(const Case& c) {
  const auto x = c.at("x").requires_grad_();
  Layer layer("fnet", {.shape = {.width = x.size(2), .max_length = 64}}, "{ortho: false}");
  expect_output(c, layer(x, {}), {});
  expect_gradient(c, "x", x.grad());
}

void check_kvt(const Case& c) {
  const auto options = "{k: " + std::to_string(c.integer("topk")) + "}";
  c.has("q") ? check_core(c, "kvt", options) : check_projected(c, "kvt", options);
}

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

void check_linear(const Case& c) {
  check_core(c, "linear", "{epsilon: 1e-6}");
}
void check_softmax(const Case& c) {
  check_projected(c, "softmax", "");
}
void check_softmax_naive(const Case& c) {
  check_projected(c, "softmax", "{form: naive}");
}

// By the beginning of a case's name; the longest one decides.
const std::map<std::string, std::vector<void (*)(const Case&)>> kReaders = {
    {"bert-self", {check_softmax, check_softmax_naive}},
    {"bert-cross", {check_softmax, check_softmax_naive}},
    {"cosformer", {check_cosformer}},
    {"fastformer-wuch15", {check_fastformer}},
    {"fnet-mix", {check_fnet}},
    {"kvt", {check_kvt}},
    {"linear-idiap-elu", {check_linear}},
    {"linformer-lucid", {check_linformer}},
    {"local", {check_local}},
};

const std::string kNoRow = "its mechanism or model is not in the table yet";
const std::string kNoReader = "its row is new and has no reader here yet";
const std::map<std::string, std::string> kSetAside = {
    {"local-bidir-rotary", "positions by rotation belong to the encoder, which has none yet"},
    {"local-causal-rotary", "positions by rotation belong to the encoder, which has none yet"},
    {"local-shared-qk", "keys shared with queries and an own-token penalty are Reformer's"},
    {"linear-idiap-favor", "features of Performer"},
    {"linear-lucid", "softmax features over channels and positions: not the paper's map"},
    {"linear-attention", "features and values of other widths: the op is tested in tests/ops"},
    {"linformer-tatp22", "whole models: the importer is not there yet"},
    {"nystrom-lucid",
     "start of the iteration scaled over the whole batch: one row changes another"},
    {"nystrom-mlpen", "empty landmarks take part"},
    {"nystromformer", kNoReader},
    {"fastformer-lucid", "a global key of the raw keys, and one transform per head"},
    {"kvt-xt", "a whole encoder"},
    {"bert-layer", "a whole block with post-norm, not one mixer"},
    {"fnet-layer", "a whole block with post-norm, not one mixer"},
    {"abc", kNoReader},
    {"aft", kNoReader},
    {"luna", kNoReader},
    {"performer", kNoReader},
    {"rfa", kNoReader},
    {"axial", kNoRow},
    {"bigbird", kNoRow},
    {"canine", kNoRow},
    {"compressive", kNoRow},
    {"delta", kNoRow},
    {"fmmformer", kNoReader},
    {"gated-delta", kNoRow},
    {"gla", kNoRow},
    {"gmlp", kNoRow},
    {"h1d", kNoReader},
    {"hyena", kNoRow},
    {"isab", kNoRow},
    {"longformer", kNoRow},
    {"longshort", kNoRow},
    {"mamba2", kNoRow},
    {"mega", kNoRow},
    {"memefficient", kNoReader},
    {"perceiver", kNoRow},
    {"realformer", kNoReader},
    {"reformer", kNoRow},
    {"retention", kNoRow},
    {"routing", kNoRow},
    {"s4d", kNoRow},
    {"s5", kNoRow},
    {"scatterbrain", kNoRow},
    {"settransformer", kNoRow},
    {"simple-gla", kNoRow},
    {"sinkhorn", kNoRow},
    {"sparse", kNoRow},
    {"transformer-ls", kNoRow},
    {"transformer_ls", kNoRow},
    {"transformer_xl", kNoRow},
};

template <class Map>
const typename Map::value_type* longest_prefix(const Map& map, const std::string& name) {
  const typename Map::value_type* best = nullptr;
  for (const auto& entry : map)
    if (name.rfind(entry.first, 0) == 0 && (!best || entry.first.size() > best->first.size()))
      best = &entry;
  return best;
}

fs::path parity_folder() {
  const char* named = std::getenv("LONGBOW_PARITY");
  return named ? fs::path(named) : fs::path(LONGBOW_SOURCE_DIR) / "../shared/data/parity";
}

TEST(Parity, EveryRecordedCaseIsReproducedOrSetAsideWithAReason) {
  const auto folder = parity_folder();
  if (!fs::is_directory(folder))
    GTEST_SKIP() << folder << " is not there; name it in LONGBOW_PARITY";
  int checked = 0, set_aside = 0;
  for (const auto* part : {"zoo", "hf", "recurrence"}) {
    if (!fs::is_directory(folder / part)) continue;
    for (const auto& entry : fs::directory_iterator(folder / part)) {
      if (entry.path().extension() != ".safetensors") continue;
      const auto name = entry.path().stem().string();
      const auto* reader = longest_prefix(kReaders, name);
      const auto* reason = longest_prefix(kSetAside, name);
      if (reason && (!reader || reason->first.size() > reader->first.size())) {
        ++set_aside;
        continue;
      }
      if (!reader) {
        ADD_FAILURE() << part << "/" << name << " has no reader";
        continue;
      }
      for (const auto check : reader->second) check(load_case(entry.path()));
      ++checked;
    }
  }
  std::printf("parity: %d cases reproduced, %d set aside\n", checked, set_aside);
  EXPECT_GT(checked, 0);
}

}  // namespace
}  // namespace longbow
