#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// One head for keys and values is the same head in every place; V = K is the same projection twice.
void check_lucid(const Case& c) {
  const int64_t heads = c.integer("heads");
  const bool one = c.flag("one_kv_head"), tied = c.flag("share_kv");
  const auto x = c.at("x").requires_grad_();
  Context context;
  if (c.has("context")) context.memory = c.at("context").requires_grad_();
  Layer layer("linformer",
              {.shape = {.width = x.size(2),
                         .heads = heads,
                         .head_width = c.at("wq").size(0) / heads,
                         .max_length = c.integer("seq_len")},
               .cross = context.memory.defined()},
              "{rank: " + std::to_string(c.integer("k")) + ", sharing: headwise}");
  const auto every_head = [&](const Tensor& w) { return one ? w.repeat({heads, 1}) : w; };
  layer.set("query.weight", c.at("wq"));
  layer.set("key.weight", every_head(c.at("wk")));
  layer.set("value.weight", every_head(c.at(tied ? "wk" : "wv")));
  layer.set("output.weight", c.at("wo"));
  layer.set("output.bias", c.at("bo"));
  layer.set("e", c.at("proj_k").t());
  layer.set("f", c.at(tied ? "proj_k" : "proj_v").t());
  expect_output(c, layer(x, context), {});
  expect_gradient(c, "x", x.grad());
  if (context.memory.defined()) expect_gradient(c, "context", context.memory.grad());
  expect_gradient(c, "wq", layer.gradient("query.weight"));
}

// A model of tatp22/linformer-pytorch, rebuilt from its state dict: the attention is ours, the rest
// is written out here. Its tensors keep their names, and so do their gradients.
class Rebuilt {
 public:
  explicit Rebuilt(const Case& c) : c_(c) {}

  void check() {
    Tensor x, y;
    const auto kind = c_.text("cls");
    if (kind == "LinformerEncDec") {
      y = language("decoder.", "dec_", "target", language("encoder.", "enc_", "x", {}));
    } else if (kind == "LinformerLM") {
      y = language("", "", "x", {});
    } else {
      x = c_.at("x").requires_grad_();
      y = stack("", "", x, c_.has("embeddings") ? leaf("embeddings") : Tensor());
    }
    expect_output(c_, y, {});
    for (const auto& [key, value] : c_.tensors)
      if (key.starts_with("grad_")) {
        const auto name = key.substr(5);
        expect_gradient(c_, name, name == "x" ? x.grad() : gradient(name));
      }
  }

 private:
  // Where a tensor of theirs went: a part of a parameter of ours.
  struct Part {
    Tensor whole;
    std::function<Tensor(const Tensor&)> pick;
  };

  Tensor leaf(const std::string& name) {
    auto& found = leaves_[name];
    if (!found.defined()) found = c_.at(name).requires_grad_();
    return found;
  }
  Tensor linear(const std::string& name, const Tensor& x) {
    return at::linear(x, leaf(name + ".weight"), leaf(name + ".bias"));
  }

  Tensor gradient(const std::string& name) const {
    if (const auto found = leaves_.find(name); found != leaves_.end()) return found->second.grad();
    Tensor sum;
    for (const auto& [whole, pick] : parts_.at(name))
      sum = sum.defined() ? sum + pick(whole.grad()) : pick(whole.grad());
    return sum;
  }

  void put(
      const Tensor& whole, const std::string& name,
      const std::function<Tensor(const Tensor&)>& pick = [](const Tensor& t) { return t; }) {
    for (const auto& part : parts_[name])
      if (part.whole.is_same(whole)) return;  // another layer has put it there
    const at::NoGradGuard no_grad;
    ASSERT_EQ(pick(whole).sizes(), c_.at(name).sizes()) << name;
    pick(whole).copy_(c_.at(name));
    parts_[name].push_back({whole, pick});
  }

  // Embeddings and positions, the sine half before the cosine half, around a stack.
  Tensor language(const std::string& prefix, const std::string& options, const std::string& ids,
                  const Tensor& memory) {
    const auto tokens = c_.tensors.at(ids).to(at::kLong);
    const auto angle = at::arange(tokens.size(1), at::kDouble).unsqueeze(1) *
                       c_.at(prefix + "pos_emb.inv_freq").unsqueeze(0);
    auto x = at::embedding(leaf(prefix + "to_token_emb.weight"), tokens) +
             at::cat({angle.sin(), angle.cos()}, -1);
    const auto inner = prefix + "linformer.";
    const bool other_width = c_.has(inner + "project_in.weight");
    if (other_width) x = linear(inner + "project_in", x);
    x = stack(other_width ? inner + "fn." : inner, options, x, memory);
    if (c_.has(inner + "project_out.weight")) x = linear(inner + "project_out", x);
    return c_.has(prefix + "to_logits.weight") ? linear(prefix + "to_logits", x) : x;
  }

  // Attention and feed-forward in turn, each LN(residual + f(x)); a decoder has a second attention,
  // to the memory, in every layer.
  Tensor stack(const std::string& prefix, const std::string& options, Tensor x,
               const Tensor& memory) {
    const int64_t attentions = memory.defined() ? 2 : 1;
    const auto shared = std::make_shared<Shared>();
    int64_t attention = 0;
    for (int64_t s = 0; c_.has(prefix + "seq." + std::to_string(s) + ".norm.weight"); ++s) {
      const auto at = prefix + "seq." + std::to_string(s) + ".";
      Tensor y;
      if (c_.has(at + "fn.to_q.0.weight")) {
        const bool cross = attention % attentions == 1;
        Site site = {.path = at, .layer = attention / attentions, .cross = cross, .shared = shared};
        y = attend(prefix, options, site, x, cross ? memory : Tensor(),
                   memory.defined() ? cross : c_.flag(options + "causal"));
        ++attention;
      } else {
        const auto z = linear(at + "fn.w_1", x);
        y = linear(at + "fn.w_2", c_.text("activation", "gelu") == "gelu" ? at::gelu(z) : z.relu());
      }
      const auto residual = c_.has(at + "resample.weight") ? linear(at + "resample", x) : x;
      x = at::layer_norm(residual + y, {y.size(2)}, leaf(at + "norm.weight"),
                         leaf(at + "norm.bias"));
    }
    return x;
  }

  // Full attention is an identity in the place of E. A convolution whose windows do not cover the
  // sequence drops the last tokens: its keys are a memory of the tokens before.
  Tensor attend(const std::string& prefix, const std::string& options, Site site, const Tensor& x,
                const Tensor& memory, bool triangle) {
    const auto at = site.path + "fn.";
    const auto sharing = c_.text(options + "parameter_sharing", "layerwise"),
               method = c_.text(options + "method", "learnable");
    const int64_t heads = c_.integer(options + "nhead", 4),
                  longest = c_.integer(options + "input_size"),
                  step = sharing == "layerwise" ? 0 : c_.integer(options + "k_reduce_by_layer", 0);
    const bool full = c_.flag(options + "full_attention"), convolution = method == "convolution";
    int64_t rank = full ? longest : c_.integer(options + "dim_k", 64), covered = longest;
    if (convolution && !full) {
      const int64_t window = longest / std::max<int64_t>(1, rank - site.layer * step);
      rank = longest / window;
      covered = rank * window;
    }
    Context context = {.memory = memory};
    if (covered < longest && !memory.defined()) context.memory = x;
    if (covered < longest) context.memory = context.memory.narrow(1, 0, covered);
    if (c_.has("keep") && !memory.defined()) {
      context.mask.keep = c_.tensors.at("keep").to(at::kBool).narrow(1, 0, covered);
      context.mask.query_keep = at::ones({x.size(0), x.size(1)}, at::kBool);
    }
    const auto q = c_.at(at + "to_q.0.weight");
    const int64_t narrow = c_.integer(options + "w_o_intermediate_dim", 0);
    site.cross = context.memory.defined();
    site.shape = {.width = x.size(2),
                  .heads = heads,
                  .head_width = q.size(0),
                  .max_length = longest,
                  .memory_length = covered};
    const std::string text = "{rank: " + std::to_string(rank) +
                             ", rank_step: " + std::to_string(full || convolution ? 0 : step) +
                             ", method: " +
                             (full                    ? "learnable"
                              : method == "no_params" ? "fixed_random"
                                                      : method) +
                             ", sharing: " + (full ? "kv" : sharing) +
                             ", bias: " + (full || method == "no_params" ? "false" : "true") +
                             ", slot_triangle: " + (triangle ? "true" : "false") +
                             ", output_rank: " + std::to_string(narrow) + "}";
    const auto mixer = make_mixer("linformer", site, text);
    mixer->to(at::kDouble);
    site.shared->to(at::kDouble);
    mixer->eval();
    mixers_.push_back(mixer);
    set_projections(*mixer, at, heads, q.size(0));
    if (full) {
      const at::NoGradGuard no_grad;
      mixer->named_parameters()["e"].copy_(at::eye(longest));
    } else {
      set_lengths(*mixer, site, prefix, at, sharing, method);
    }
    return (*mixer)(x, context);
  }

  void set_projections(const MixerImpl& mixer, const std::string& at, int64_t heads,
                       int64_t width) {
    const auto own = mixer.named_parameters();
    for (const auto& [ours, theirs] :
         {std::pair{"query", "to_q."}, {"key", "to_k."}, {"value", "to_v."}}) {
      for (int64_t h = 0; h < heads; ++h)
        put(own[ours + std::string(".weight")], at + theirs + std::to_string(h) + ".weight",
            [=](const Tensor& t) { return t.narrow(0, h * width, width); });
      const at::NoGradGuard no_grad;
      own[ours + std::string(".bias")].zero_();
    }
    const bool steps = c_.has(at + "w_o_1.weight");
    for (const std::string part : {".weight", ".bias"}) {
      put(own["output" + part], at + (steps ? "w_o_2" : "w_o") + part);
      if (steps) put(own["output_in" + part], at + "w_o_1" + part);
    }
  }

  // What is shared is there once for us, and stands under every name of theirs with one gradient,
  // under the first.
  void set_lengths(const MixerImpl& mixer, const Site& site, const std::string& prefix,
                   const std::string& at, const std::string& sharing, const std::string& method) {
    for (int64_t h = 0; h < site.shape.heads; ++h)
      for (const std::string letter : {"e", "f"})
        for (const std::string part : {"weight", "bias"}) {
          if (method == "no_params" && part == "bias") continue;
          const auto named = [&](const std::string& layer, int64_t head, bool values) {
            return (method == "no_params" ? "unsaved_" : "") + layer + "heads." +
                   std::to_string(head) + (values ? ".F" : ".E") +
                   (method == "no_params" ? "" : "." + part);
          };
          const bool values = letter == "f" && (sharing == "none" || sharing == "headwise");
          const auto first = named(sharing == "layerwise" ? prefix + "seq.0.fn." : at,
                                   sharing == "none" ? h : 0, values);
          EXPECT_NEAR_TENSOR(c_.at(named(at, h, letter == "f")), c_.at(first), kExact);
          if ((letter == "f" && !values) || (h > 0 && sharing != "none")) continue;
          const auto whole = own_tensor(mixer, site, letter + (part == "bias" ? "_bias" : ""));
          if (method == "no_params")
            put(whole, first, [=](const Tensor& t) { return (sharing == "none" ? t[h] : t).t(); });
          else
            put(whole, first, [=](const Tensor& t) { return sharing == "none" ? t[h] : t; });
        }
  }

  static Tensor own_tensor(const MixerImpl& mixer, const Site& site, const std::string& name) {
    const auto own = mixer.named_parameters(), fixed = mixer.named_buffers();
    if (own.contains(name)) return own[name];
    if (fixed.contains(name)) return fixed[name];
    const auto key = (site.cross ? "linformer_cross_" : "linformer_") + name;
    const auto shared = site.shared->named_parameters(), buffers = site.shared->named_buffers();
    return shared.contains(key) ? shared[key] : buffers[key];
  }

  const Case& c_;
  Tensors leaves_;
  std::map<std::string, std::vector<Part>> parts_;
  std::vector<Mixer> mixers_;
};

void check_tatp22(const Case& c) {
  Rebuilt(c).check();
}

const Reader lucid("linformer-lucid", {check_lucid});
const Reader tatp22("linformer-tatp22", {check_tatp22});

}  // namespace
}  // namespace longbow::parity
