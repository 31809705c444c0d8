// Linformer (Wang et al., 2020, arXiv:2006.04768): keys and values are projected along the sequence
// from M to `rank` slots, so the scores are [N, R]:   o = softmax(q (E K)^T / sqrt D) (F V),   E, F
// [R, max length]. K = X W, and E (X W) = (E X) W: where all heads share E the tokens are projected
// first, once for all of them. Exact when rank = M and E = F is the identity (or any permutation).
// Causally query t reads the slots as they stand after token t (`bounded_memory`),
//   K~_t = sum_{i <= t} E_i k_i^T,   V~_t = sum_{i <= t} F_i v_i^T,
// or the slots of whole windows before its own, and its own window exactly (`block_causal`).
#include <ATen/ATen.h>

#include "longbow/attention/linformer/slot_read.h"
#include "longbow/attention/linformer/window_memory.h"
#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/slots/length_config.h"
#include "longbow/nn/softmax/tiles.h"
#include "longbow/ops/slot_softmax.h"

namespace longbow {
namespace {

enum class CausalForm { bounded_memory, block_causal };
constexpr std::array<std::string_view, 2> names_of(CausalForm) {
  return {"bounded_memory", "block_causal"};
}

struct Config : LengthConfig {
  bool hide_unwritten = false;
  CausalForm causal_form = CausalForm::bounded_memory;
  bool slot_triangle = false;
  int64_t output_rank = 0;
  bool output = true;
  double dropout = 0;
  bool recompute_heads = false, official = false;
};
template <class V>
void fields(V& v, Config& c) {
  fields(v, static_cast<LengthConfig&>(c));
  v("hide_unwritten", c.hide_unwritten, "slots into which no token was written are not read");
  v("causal_form", c.causal_form, "what a causal mask means");
  v("slot_triangle", c.slot_triangle,
    "query i reads slots 0 to i only; not causal: every slot knows all tokens");
  v("output_rank", c.output_rank, "the output projection goes through this width; 0 = in one step",
    at_least(0));
  v("output", c.output, "project the output; without, the heads must make up the model width");
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
  v("recompute_heads", c.recompute_heads,
    "without a causal mask: weights are not stored but computed again in the backward pass");
  v("official", c.official,
    "as the Long Range Arena's code: keys and values share a projection in each layer, and padding "
    "is read; neither causal nor with a memory");
}

class Linformer : public ProjectedMixer {
 public:
  Linformer(const Site& site, const Config& config)
      : ProjectedMixer(site, {config.output_rank, config.output}),
        config_(config),
        width_(site.shape.head()),
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(width_))) {
    const auto made = make_length_projections(
        site, config, [this](const std::string& name, const Tensor& value, bool learned) {
          return learned ? parameter(name, value, {.decay = value.dim() > 1})
                         : register_buffer(name, value);
        });
    e_ = made.e;
    f_ = made.f;
    apart_ = made.apart;
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto source = context.memory.defined() ? context.memory : x;
    const int64_t keys = source.size(1), extra = keys - x.size(1);
    TORCH_CHECK(keys <= e_.longest, "linformer: ", keys, " keys, but max_length is ", e_.longest);
    if (!context.mask.causal) {
      const auto slots = packed(source, context);
      return folds(x, slots, context)
                 ? read_folded(slots, x, context)
                 : merged(read(rotated(split(*query_, x), context), slots, x, context));
    }
    const auto [plain_q, plain_k, plain_v] = projected(x, source);
    const auto q = rotated(plain_q, context);
    // Aligned at the end: queries before the first key see nothing.
    const auto padded = [&](const Tensor& t, int64_t rows) {
      return rows == 0 ? t : at::constant_pad_nd(t, {0, 0, rows, 0});
    };
    const Heads heads = {padded(q, extra), rotated(plain_k, context), plain_v, x, source};
    const auto y = config_.causal_form == CausalForm::block_causal
                       ? read_windows(scaled(heads), e_, f_, weighing(), context)
                       : remember(heads, {}, nullptr, context);
    return merged(padded(y, -extra));
  }

  void open(State& state, int64_t lanes, int64_t capacity, Context& context) override {
    if (context.memory.defined()) {
      const auto slots = packed(context.memory, context);
      state.lane = {{"memory_keys", slots.keys}, {"memory_values", slots.values}};
      if (hides()) state.lane["memory_visible"] = slots.visible.expand({lanes, -1, -1, -1});
      for (const auto& [name, tensor] : state.lane) state.fill[name] = 0;
      return;
    }
    TORCH_CHECK(capacity <= e_.longest, "linformer: ", capacity, " keys, but max_length is ",
                e_.longest);
    const auto none = at::zeros({lanes, heads_, 0, width_}, query_->weight.options());
    if (config_.causal_form == CausalForm::block_causal)
      return open_windows(state, {none, none, none, {}, {}}, e_);
    const auto sums = none.options().dtype(wide(none));
    const int64_t by_head = !e_.windowed() && config_.sharing == LengthSharing::none ? heads_ : 1;
    for (const std::string name : {"keys", "values"}) {
      state.add(name, {lanes, heads_, e_.slots, width_}, sums);
      if (weighs()) state.add(name + "_mass", {lanes, by_head, 1, e_.slots}, sums);
    }
  }

  Tensor grow(const Tensor& x, State& state, Context& context) override {
    const auto q = split(*query_, x);
    if (const auto& lane = state.lane; lane.count("memory_keys")) {
      const auto visible = hides() ? lane.at("memory_visible") : Tensor();
      return merged(
          read(q, {lane.at("memory_keys"), lane.at("memory_values"), visible}, x, context));
    }
    const Heads heads = {rotated(q, context), rotated(split(*key_, x), context), split(*value_, x),
                         x, x};
    return merged(config_.causal_form == CausalForm::block_causal
                      ? grow_windows(scaled(heads), e_, f_, weighing(), state, context)
                      : remember(heads, context.positions, &state, context));
  }

 private:
  Tensor split(const Linear& linear, const Tensor& x) const {
    return split_heads(linear(x), heads_);
  }
  std::array<Tensor, 3> projected(const Tensor& x, const Tensor& source) const {
    if (!source.is_same(x))
      return {split(*query_, x), split(*key_, source), split(*value_, source)};
    const auto rows = project_together(x, {query_.get(), key_.get(), value_.get()});
    return {split_heads(rows[0], heads_), split_heads(rows[1], heads_),
            split_heads(rows[2], heads_)};
  }
  Weighing weighing() const { return {config_.dropout, is_training(), path_}; }
  bool hides() const { return config_.hide_unwritten || e_.pools(); }
  bool weighs() const { return hides() || e_.scale == LengthScale::mass; }

  struct Slots {
    Tensor keys, values, visible;  // [B, H, R, D] both; [B or 1, H or 1, 1, R], undefined = all
  };
  // K~ = E K and V~ = F V of a whole source. Keys that are rotated one by one are so before E.
  Slots packed(const Tensor& source, const Context& context) const {
    const auto keep = config_.official ? Tensor() : context.mask.keep;
    Slots slots;
    if (e_.commutes() && !rotates()) {
      const auto tokens = packed_tokens(e_, source, keep);
      slots.keys = projected(tokens, *key_);
      slots.values = projected(apart_ ? packed_tokens(f_, source, keep) : tokens, *value_);
    } else {
      slots.keys = e_(rotated(split(*key_, source), context), keep);
      slots.values = f_(split(*value_, source), keep);
    }
    slots.keys = e_.with_bias(slots.keys, keep);
    slots.values = f_.with_bias(slots.values, keep);
    if (hides()) slots.visible = e_.mass(source.size(1), keep, source.options()) > 0;
    return slots;
  }

  // E X for all heads at once, and E 1 where there is a bias: what each slot makes of it. [B, R,
  // Cm], [B or 1, R, 1]
  struct Tokens {
    Tensor rows, ones;
  };
  Tokens packed_tokens(const LengthProjection& e, const Tensor& source, const Tensor& keep) const {
    const auto rows = e(source.unsqueeze(1), keep).squeeze(1);
    if (!key_->bias.defined() && !value_->bias.defined()) return {rows, {}};
    const auto one = at::ones({1, 1, source.size(1), 1}, source.options());
    return {rows, e(one, keep).squeeze(1)};
  }
  Tensor projected(const Tokens& tokens, const Linear& linear) const {
    const auto y = at::linear(tokens.rows, linear.weight);
    return split_heads(linear.bias.defined() ? y + tokens.ones * linear.bias : y, heads_);
  }

  Tensor visible(const Slots& slots, const Tensor& x, const Context& context) const {
    if (!config_.slot_triangle) return slots.visible;
    const auto last = positions_of(x, context).unsqueeze(1).unsqueeze(-1);  // [B, 1, N, 1]
    const auto triangle = at::arange(e_.slots, last.options()) <= last;
    return slots.visible.defined() ? slots.visible.logical_and(triangle) : triangle;
  }

  Tensor read(const Tensor& q, const Slots& slots, const Tensor& x, Context& context) const {
    const auto seen = visible(slots, x, context);
    const auto keys = slots.keys * scale_;
    if (!config_.recompute_heads || context.maps)
      return softmax_read(q, keys, slots.values, seen, weighing(), context);
    return tiled_softmax(q, keys, slots.values, {.visible = seen},
                         {.queries = 1024, .keys = e_.slots}, weighing(), context)
        .to(q.scalar_type());
  }

  // x W_q K~^T = x (K~ W_q^T)^T, and (p V~) W_o = p (V~ W_o): where slots are few and heads wide,
  // neither queries nor what the heads have read need be formed. Kernels that read the slots of a
  // head are faster than products of all heads, which store their weights.
  bool folds(const Tensor& x, const Slots& slots, const Context& context) const {
    const int64_t ends = x.size(2) + outgoing_width();
    const bool drops = is_training() && config_.dropout > 0;
    const bool plain = !drops && !config_.slot_triangle;
    const bool kernels = plain && has_slot_kernel(slots.keys, slots.keys, slots.values);
    const int64_t least = plain && x.is_cpu() ? 2 : 1;  // times as few products, beside tiles
    return !rotates() && !context.maps && !kernels && outgoing_width() > 0 &&
           least * e_.slots * ends < width_ * (ends + 2 * e_.slots);
  }
  Tensor read_folded(const Slots& slots, const Tensor& x, const Context& context) const {
    const auto keys = slots.keys * scale_;
    const auto by_head = [&](const Tensor& t) { return t.unflatten(0, {heads_, -1}); };
    FixedSlots folded = {.keys = keys.matmul(by_head(query_->weight)),
                         .bias = {},
                         .values = outgoing(slots.values),
                         .visible = visible(slots, x, context)};
    if (query_->bias.defined())
      folded.bias = keys.matmul(by_head(query_->bias).unsqueeze(-1)).squeeze(-1);
    return finished(read_in_pieces(x, folded, weighing(), context));
  }

  Heads scaled(Heads heads) const {
    heads.q = heads.q * scale_;
    return heads;
  }
  // Query t reads what was written up to t, after what the state holds.
  Tensor remember(const Heads& heads, const Tensor& positions, State* state, Context& context) {
    const auto past = [&](const std::string& name) {
      return state && state->lane.count(name) ? state->lane.at(name) : Tensor();
    };
    const auto growth = [&](const LengthProjection& p, const Tensor& rows,
                            const std::string& name) {
      return p.growth(rows, positions, context.mask.keep, past(name), past(name + "_mass"), hides(),
                      slot_type(heads.k, heads.v, e_.slots, state));
    };
    const auto keys = growth(e_, heads.k, "keys"), values = growth(f_, heads.v, "values");
    auto key_rows = keys.sums;
    key_rows.scale = scale_;
    const auto read = read_slots(heads.q, key_rows, values.sums, hides() ? keys.mass > 0 : Tensor(),
                                 weighing(), context);
    if (state) {
      state->lane["keys"] = read.keys;
      state->lane["values"] = read.values;
      if (weighs()) {
        state->lane["keys_mass"] = keys.mass.slice(2, -1);
        state->lane["values_mass"] = values.mass.slice(2, -1);
      }
    }
    return read.y.to(heads.v.scalar_type());
  }

  Config config_;
  int64_t width_;
  bool apart_ = false;  // E and F are two
  std::string path_;
  double scale_;
  LengthProjection e_, f_;
};

void check(const Config& c, const Site& site) {
  check_length_config(c, site);
  const auto& shape = site.shape;
  require_option(c.output || shape.inner() == shape.width, "output",
                 c10::str("is false, but ", shape.heads, " heads of width ", shape.head(),
                          " do not make up the model width ", shape.width),
                 "leave it out, or choose a head_width that does");
  require_option(c.output || c.output_rank == 0, "output_rank",
                 "is the width of a projection that output: false leaves out",
                 "leave one of them out");
  require_option(
      !c.official || (c.method == LengthMethod::learnable && c.sharing == LengthSharing::kv),
      "official", "needs method: learnable and sharing: kv", "leave all three out, or set both");
  if (c.causal_form != CausalForm::block_causal) return;
  const bool windows = c.method == LengthMethod::mean_pool || c.method == LengthMethod::convolution;
  require_option(windows, "causal_form", "is block_causal, which needs slots that are windows",
                 "set method to mean_pool or convolution");
  require_option(c.scale != LengthScale::tokens, "scale",
                 "is tokens, which does not go with causal_form: block_causal", "leave scale out");
  require_option(!c.slot_triangle, "slot_triangle", "does not go with causal_form: block_causal",
                 "leave one of them out");
}

Promises promises(const Config& c) {
  const bool causal = c.method != LengthMethod::max_pool && !c.slot_triangle && !c.official;
  // Windows grow with the longest sequence when the number of slots does not.
  const double exponent = c.causal_form == CausalForm::block_causal ? 2 : 1;
  return {.padding = c.official ? Padding::visible : Padding::invisible,
          .future = causal ? Future::exact : Future::refused,
          .cross = !c.official,
          .decode = causal,
          .positional = true,
          .rotary = true,
          .time = exponent,
          .memory = exponent,
          .launches = c.recompute_heads ? Launches::growing : Launches::constant};
}

OptionValues common(const Config& c, const Site& site) {
  return shared_length_options(c, site);
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<Linformer>(site, c);
}

}  // namespace

Mechanism linformer_mechanism() {
  auto row = over_tokens<Config>(
      {.name = "linformer",
       .family = "low rank",
       .paper = "arXiv:2006.04768",
       .cost = "O(N R D)",
       .summary = "Keys and values are projected along the sequence to a fixed number of slots.",
       .exact = "rank = M and an identity projection: softmax",
       .variants = {{"none", "{rank: 16, sharing: none, bias: true}"},
                    {"headwise", "{rank: 16, sharing: headwise, scale: tokens}"},
                    {"layerwise", "{rank: 16, sharing: layerwise, bias: true}"},
                    {"mass", "{rank: 16, scale: mass, hide_unwritten: true}"},
                    {"convolution", "{rank: 8, method: convolution, bias: true}"},
                    {"depthwise", "{rank: 8, method: convolution, sharing: none, depthwise: true}"},
                    {"mean_pool", "{rank: 8, method: mean_pool}"},
                    {"max_pool", "{rank: 8, method: max_pool}"},
                    {"fixed_random",
                     "{method: fixed_random, sharing: headwise, deviation: inverse}"},
                    {"block_causal", "{rank: 8, method: mean_pool, causal_form: block_causal}"},
                    {"block_convolution",
                     "{rank: 8, method: convolution, bias: true, causal_form: block_causal}"},
                    {"slot_triangle", "{rank: 16, slot_triangle: true}"},
                    {"recompute_heads", "{rank: 16, sharing: none, recompute_heads: true}"},
                    {"official", "{rank: 16, official: true}"}}},
      promises, make, check);
  return with_common(row, common);
}

}  // namespace longbow
