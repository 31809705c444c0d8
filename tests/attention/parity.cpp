#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

std::map<std::string, Entry>& entries() {
  static std::map<std::string, Entry> all;
  return all;
}

Entry& entry_for(const std::string& beginning) {
  auto& entry = entries()[beginning];
  entry.beginning = beginning;
  return entry;
}

}  // namespace

Reader::Reader(const std::string& beginning, std::vector<Check> checks) {
  entry_for(beginning).checks = std::move(checks);
}

SetAside::SetAside(const std::string& beginning, const std::string& reason) {
  entry_for(beginning).reason = reason;
}

const Entry* find_entry(const std::string& name) {
  const std::pair<const std::string, Entry>* best = nullptr;
  for (const auto& entry : entries())
    if (name.rfind(entry.first, 0) == 0 && (!best || entry.first.size() > best->first.size()))
      best = &entry;
  return best ? &best->second : nullptr;
}

std::set<std::string> readers() {
  std::set<std::string> beginnings;
  for (const auto& [beginning, entry] : entries())
    if (!entry.checks.empty()) beginnings.insert(beginning);
  return beginnings;
}

int64_t Case::integer(const std::string& key) const {
  const auto* value = config.find(key);
  TORCH_CHECK(value, name, ": its config has no ", key);
  return as_integer(*value, key);
}
int64_t Case::integer(const std::string& key, int64_t fallback) const {
  const auto* value = config.find(key);
  return value && !value->is_null() ? as_integer(*value, key) : fallback;
}
double Case::number(const std::string& key, double fallback) const {
  const auto* value = config.find(key);
  return value && !value->is_null() ? as_number(*value, key) : fallback;
}
bool Case::flag(const std::string& key, bool fallback) const {
  const auto* value = config.find(key);
  return value && !value->is_null() ? as_boolean(*value, key) : fallback;
}
std::string Case::text(const std::string& key, const std::string& fallback) const {
  const auto* value = config.find(key);
  return value && !value->is_null() ? as_string(*value, key) : fallback;
}

Weights::Weights(std::shared_ptr<torch::nn::Module> module) : module_(std::move(module)) {
  module_->to(at::kDouble);
  module_->eval();
  const at::NoGradGuard no_grad;
  for (auto& parameter : module_->parameters()) parameter.zero_();
}

void Weights::set(const std::string& name, const Tensor& value, const std::string& recorded) {
  if (!recorded.empty()) recorded_[recorded] = name;
  const at::NoGradGuard no_grad;
  const auto parameters = module_->named_parameters(), buffers = module_->named_buffers();
  const auto* found = parameters.find(name);
  if (!found) found = buffers.find(name);
  ASSERT_TRUE(found) << "no parameter or buffer is called " << name;
  ASSERT_EQ(found->sizes(), value.sizes()) << name;
  auto target = *found;
  target.copy_(value);
}

void Weights::set_projection(const Case& c, const std::string& name, const std::string& suffix) {
  if (c.has("w" + suffix)) set(name + ".weight", c.at("w" + suffix), "w" + suffix);
  if (c.has("b" + suffix)) set(name + ".bias", c.at("b" + suffix), "b" + suffix);
}

Tensor Weights::gradient(const std::string& name) const {
  return module_->named_parameters()[name].grad();
}

void Weights::expect_gradients(const Case& c) const {
  for (const auto& [theirs, ours] : recorded_) expect_gradient(c, theirs, gradient(ours));
}

void expect_gradient(const Case& c, const std::string& name, const Tensor& got) {
  if (!c.has("grad_" + name)) return;
  const auto want = c.at("grad_" + name);
  const double scale = std::max(1.0, want.abs().max().item<double>());
  EXPECT_NEAR_TENSOR(got, want, (Tolerance{2e-7 * scale, 0})) << c.name << ": gradient of " << name;
}

void expect_output(const Case& c, const Tensor& got, const Tensor& rows, double precision) {
  auto want = c.at("y"), weights = c.at("g");
  if (rows.defined()) {
    want = want * rows;
    weights = weights * rows;
  }
  EXPECT_NEAR_TENSOR(rows.defined() ? got * rows : got, want, (Tolerance{precision, precision}))
      << c.name;
  (got * weights).sum().backward();
}

bool probes_only(const Case& c, const Tensor& rows) {
  return !rows.defined() || (c.at("g") * (1 - rows)).eq(0).all().item<bool>();
}

Mask mask_of(const Case& c) {
  Mask mask;
  mask.causal = c.flag("causal");
  if (c.has("keep")) {
    mask.keep = c.tensors.at("keep").to(at::kBool);
    mask.ragged = true;
  }
  if (c.has("global_tokens")) {  // [B, N] of 0 and 1
    const auto chosen = c.tensors.at("global_tokens").to(at::kLong);
    const auto most = chosen.sum(1).max().item<int64_t>();
    const auto first =
        chosen.argsort(/*stable=*/true, /*dim=*/1, /*descending=*/true).narrow(1, 0, most);
    mask.globals = first.masked_fill(chosen.gather(1, first) == 0, -1);
  }
  if (c.has("query_keep")) mask.query_keep = c.tensors.at("query_keep").to(at::kBool);
  return mask;
}

namespace {

void set_projections(const Case& c, Weights& weights, const std::string& prefix) {
  weights.set_projection(c, prefix + "query", "q");
  weights.set_projection(c, prefix + "key", "k");
  weights.set_projection(c, prefix + "value", "v");
  weights.set_projection(c, prefix + "output", "o");
}

Activation activation_of(const Case& c) {
  const auto name = c.text("act", "gelu");
  if (name == "relu") return Activation::relu;
  TORCH_CHECK(name == "gelu" || name == "gelu_new", c.name, ": unknown activation ", name);
  return name == "gelu" ? Activation::gelu : Activation::gelu_tanh;
}

}  // namespace

void check_block(const Case& c, const std::string& mechanism, const std::string& options) {
  const auto x = c.at("x").requires_grad_();
  const Site site = {
      .shape = {.width = x.size(2), .heads = c.integer("heads", 1), .max_length = x.size(1)}};
  const auto block =
      residual(site, make_mixer(mechanism, site, options),
               {.residual = Residual::post_norm,
                .feed_forward = {.width = c.at("w1").size(0), .activation = activation_of(c)},
                .norm_epsilon = c.number("eps", 1e-12)});
  Weights weights(block);
  set_projections(c, weights, "mixer.");
  weights.set_projection(c, "feed_forward.up", "1");
  weights.set_projection(c, "feed_forward.down", "2");
  const std::pair<std::string, std::string> norms[] = {{"mixer_norm", "ln1"},
                                                       {"feed_forward_norm", "ln2"}};
  for (const auto& [ours, theirs] : norms) {
    weights.set(ours + ".weight", c.at(theirs + "_gain"), theirs + "_gain");
    weights.set(ours + ".bias", c.at(theirs + "_bias"), theirs + "_bias");
  }
  Context context = {.mask = mask_of(c)};
  const auto& keep = context.mask.keep;
  const auto rows = keep.defined() ? keep.unsqueeze(-1).to(at::kDouble) : Tensor();
  expect_output(c, block->forward(x, context), rows);
  if (!probes_only(c, rows)) return;
  expect_gradient(c, "x", x.grad());
  weights.expect_gradients(c);
}

void check_projected(const Case& c, const std::string& mechanism, const std::string& options,
                     const Setter& more, const Compared& compared) {
  const auto x = c.at("x").requires_grad_();
  const std::string source = c.has("context") ? "context" : "memory";
  const bool crossing = c.has(source);
  const int64_t heads = c.integer("heads", 1), inner = c.at("wq").size(0);
  Context context = {.mask = mask_of(c)};
  Choices choices = {.mode = Choices::Mode::replay, .kept = compared.choices};
  if (!choices.kept.empty()) context.choices = &choices;
  if (crossing) context.memory = c.at(source).requires_grad_();
  Layer layer(mechanism,
              {.shape = {.width = x.size(2),
                         .heads = heads,
                         .head_width = inner / heads,
                         .max_length = x.size(1),
                         .memory_length = crossing ? context.memory.size(1) : 0},
               .cross = crossing},
              options);
  set_projections(c, layer, "");
  if (more) more(layer);
  Tensor rows = compared.rows;
  if (compared.every_query && context.mask.keep.defined() && !crossing)
    context.mask.query_keep = at::ones({x.size(0), x.size(1)}, at::kBool);
  else if (context.mask.keep.defined() && !crossing)
    rows = context.mask.keep.unsqueeze(-1).to(at::kDouble);
  expect_output(c, layer(x, context), rows);
  if (compared.rows.defined() || !probes_only(c, rows)) return;
  expect_gradient(c, "x", x.grad());
  if (crossing) expect_gradient(c, source, context.memory.grad());
  layer.expect_gradients(c);
  for (const auto& [theirs, ours] : compared.gradients)
    expect_gradient(c, theirs, layer.gradient(ours));
  if (compared.after) compared.after(layer);
}

// They are laid side by side as channels of one token, and each projection picks its own.
void check_core(const Case& c, const std::string& mechanism, const std::string& options,
                const Setter& more, const Compared& compared) {
  const bool tokens_first = c.text("layout") == "B,N,H,e";
  const auto channels = [&](const std::string& name) {
    const auto t = c.at(name);
    return merge_heads(tokens_first ? t.transpose(1, 2) : t);
  };
  const bool shared = !c.has("k");  // keys are the queries
  const auto q = channels("q").requires_grad_(), k = channels(shared ? "q" : "k").requires_grad_(),
             v = channels("v").requires_grad_();
  const int64_t heads = c.at("q").size(tokens_first ? 2 : 1), inner = q.size(2);
  const bool crossing = q.size(1) != k.size(1);
  Layer layer(mechanism,
              {.shape = {.width = 3 * inner,
                         .heads = heads,
                         .head_width = inner / heads,
                         .max_length = q.size(1),
                         .memory_length = k.size(1)},
               .cross = crossing,
               .rotary = compared.rotary},
              options);
  const auto pick = [&](int64_t part) {
    auto weight = at::zeros({inner, 3 * inner}, at::kDouble);
    weight.narrow(1, part * inner, inner).copy_(at::eye(inner));
    return weight;
  };
  layer.set("query.weight", pick(0));
  if (!shared) layer.set("key.weight", pick(1));
  layer.set("value.weight", pick(2));
  layer.set("output.weight", pick(0).t());
  if (more) more(layer);
  Context context = {.mask = mask_of(c)};
  const bool padded = context.mask.keep.defined() && !crossing;
  if (compared.every_query && padded)
    context.mask.query_keep = at::ones({q.size(0), q.size(1)}, at::kBool);
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
  if (padded && !compared.every_query) {
    rows = context.mask.keep.to(at::kDouble);
    rows = tokens_first ? rows.unsqueeze(-1).unsqueeze(-1) : rows.unsqueeze(1).unsqueeze(-1);
  }
  expect_output(c, y, rows);
  const auto back = [&](const Tensor& gradient) {
    const auto by_head = split_heads(gradient, heads);
    return tokens_first ? by_head.transpose(1, 2) : by_head;
  };
  if (!probes_only(c, rows)) return;
  expect_gradient(c, "q", back(q.grad()));
  if (!shared) expect_gradient(c, "k", back(k.grad()));
  expect_gradient(c, "v", back(v.grad()));
  layer.expect_gradients(c);
  for (const auto& [theirs, ours] : compared.gradients)
    expect_gradient(c, theirs, layer.gradient(ours));
  if (compared.after) compared.after(layer);
}

}  // namespace longbow::parity
