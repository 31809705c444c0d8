// Luna (Ma et al., 2021, arXiv:2106.01540): a short extra sequence P [R, C] packs the tokens, and
// the tokens read what it packed; P goes on to the next layer:
//   Y = softmax(P W_pq (X W_pk)^T) (X W_pv)     pack, R queries, no output projection
//   o = softmax(X W_q (Y W_k)^T) (Y W_v)        read, R keys
//   P' = LN(P + Y)
// each with its 1 / sqrt(width of a head). Causally slot j holds a running mean instead:
//   w_tj = psi(x_t W_pk . p_j),  K_tj = 1/t sum_{i<=t} w_ij k_i,  V_tj = 1/t sum_{i<=t} w_ij v_i,
//   o_t = sum_j softmax_j(q_t . K_tj) V_tj,
// which is two causal products, and P stays as it is. In a decoder self- and cross-attention have
// one P, which the pack of the cross-attention updates.
// Exact when R = M and the pack copies each token into a slot of its own.
#include <ATen/ATen.h>

#include <numbers>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/features/feature_attention.h"
#include "longbow/nn/features/feature_maps.h"
#include "longbow/nn/layers/layer_norm.h"
#include "longbow/nn/layers/positions.h"
#include "longbow/nn/slots/slots.h"

namespace longbow {
namespace {

enum class Psi { softplus, elu };
constexpr std::array<std::string_view, 2> names_of(Psi) {
  return {"softplus", "elu"};
}

enum class Shorten { none, row, batch };
constexpr std::array<std::string_view, 3> names_of(Shorten) {
  return {"none", "row", "batch"};
}

struct Config {
  int64_t length = 16;
  bool positions = false;
  Shorten shorten = Shorten::none;
  bool tied = true;
  int64_t pack_heads = 0;
  Psi psi = Psi::softplus;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("length", c.length, "slots of the extra sequence", range(1, 65536));
  v("positions", c.positions, "sinusoids are added to the first extra sequence");
  v("shorten", c.shorten,
    "the bidirectional read uses no more slots than its sequence has tokens, or, as in the "
    "reference, than the longest of the batch");
  v("tied", c.tied, "one projection for keys and values, in the pack and in the read");
  v("pack_heads", c.pack_heads, "heads of the bidirectional pack; 0 = as many as the read has",
    at_least(0));
  v("psi", c.psi, "weights of the causal pack: log2(1 + 2^x), or elu(x) + 1");
  v("dropout", c.dropout, "rate on the weights and on what is added to the extra sequence",
    range(0, 0.99));
}

class Luna : public MixerImpl {
 public:
  Luna(const Site& site, const Config& config)
      : config_(config),
        heads_(site.shape.heads),
        pack_heads_(config.pack_heads > 0 ? config.pack_heads : heads_),
        path_(site.path),
        carry_(site.cross ? kCommon : kOwn) {
    const auto& shape = site.shape;
    const int64_t width = shape.width, source = site.source_width();
    pack_query_ = projection(site, "pack_query", width, width);
    pack_key_ = projection(site, "pack_key", source, width);
    pack_value_ = config.tied ? pack_key_ : projection(site, "pack_value", source, width);
    query_ = projection(site, "query", width, shape.inner());
    key_ = projection(site, "key", width, shape.inner());
    value_ = config.tied ? key_ : projection(site, "value", width, shape.inner());
    output_ = linear(site, "output", shape.inner(), width);
    norm_ = register_module("norm", std::make_shared<LayerNorm>(width));
    p_ = sequence(site);
    if (config.positions)
      positions_ = register_buffer("positions", sinusoids(config.length, width));
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto source = context.memory.defined() ? context.memory : x;
    if (!context.mask.causal) return read(x, pack(source, context), context);
    const auto seen = positions_of(source, {.mask = {.keep = context.mask.keep}});
    return running(x, carried(context), seen, context, nullptr);
  }

  // A memory is packed here, once. Without one the state is the two running sums; a P that came
  // from elsewhere is kept beside them, and a lane that begins anew returns to the stack's.
  void open(State& state, int64_t lanes, int64_t, Context& context) override {
    if (context.memory.defined()) {
      const auto packed = pack(context.memory, context);
      state.lane["keys"] = packed.keys;
      state.lane["values"] = packed.values;
      const auto all = at::ones({1, 1, 1, 1}, p_.options().dtype(at::kBool));
      state.lane["there"] = (packed.there.defined() ? packed.there : all).expand({lanes, 1, 1, -1});
    } else {
      const auto none =
          at::zeros({lanes, heads_, 0, query_->weight.size(0) / heads_}, p_.options());
      open_slots(state, {.k = none, .v = none}, config_.length);
      if (context.carry.count(carry_)) {
        state.lane["p"] = context.carry.at(carry_).expand({lanes, -1, -1});
        state.lane["has_p"] = at::ones({lanes, 1, 1}, p_.options().dtype(at::kBool));
      }
    }
    for (const auto& [name, tensor] : state.lane) state.fill[name] = 0;
  }

  Tensor grow(const Tensor& x, State& state, Context& context) override {
    const auto& lane = state.lane;
    if (lane.count("keys"))
      return read(x, {lane.at("keys"), lane.at("values"), lane.at("there")}, context);
    const auto p = lane.count("p") ? at::where(lane.at("has_p"), lane.at("p"), first()) : first();
    return running(x, p, context.positions, context, &state);
  }

 private:
  struct Packed {
    Tensor keys, values;  // [B, H, R, D]
    Tensor there;         // [B, 1, 1, 1 or R] bool: a row without any real token packs nothing
  };

  Packed pack(const Tensor& source, Context& context) const {
    const auto p = carried(context);  // [B or 1, R, C]
    const auto real = visible_keys(context.mask.keep);
    const auto split = [&](const Tensor& t) { return split_heads(t, pack_heads_); };
    const auto k = (*pack_key_)(source), v = config_.tied ? k : (*pack_value_)(source);
    const Weighing weighing = {config_.dropout, is_training(), path_ + ".pack"};
    const auto q = split(scaled((*pack_query_)(p), pack_heads_)).expand({k.size(0), -1, -1, -1});
    const auto y =
        merge_heads(softmax_read(q, split(k), split(v), real, weighing, context));  // [B, R, C]
    context.carry[carry_] =
        (*norm_)(p + dropout(y, config_.dropout, is_training(), context, path_ + ".p.dropout"));
    const auto keys = split_heads((*key_)(y), heads_);
    return {keys, config_.tied ? keys : split_heads((*value_)(y), heads_),
            used(real, source.size(1))};
  }

  Tensor used(const Tensor& real, int64_t tokens) const {
    const auto any = real.defined() ? real.any(-1, true) : real;
    if (config_.shorten == Shorten::none) return any;
    const auto slot = at::arange(config_.length, p_.options().dtype(at::kLong)).view({1, 1, 1, -1});
    if (!real.defined()) return slot < tokens;
    return config_.shorten == Shorten::row ? slot < real.sum(-1, true)
                                           : any.logical_and(slot < tokens);
  }

  Tensor read(const Tensor& x, const Packed& packed, Context& context) const {
    const auto q = split_heads((*query_)(x), heads_);
    const auto keys = packed.keys / std::sqrt(static_cast<double>(q.size(3)));
    const Weighing weighing = {config_.dropout, is_training(), path_};
    return (*output_)(
        merge_heads(softmax_read(q, keys, packed.values, packed.there, weighing, context)));
  }

  // The causal form; `seen` [B, M] counts the tokens before each. A memory first takes the width of
  // the model, as its packed tokens do.
  Tensor running(const Tensor& x, const Tensor& p, const Tensor& seen, Context& context,
                 State* state) const {
    const auto& memory = context.memory;
    const auto of = memory.defined() ? projected(x, memory) : projected(x);
    const auto keys = split_heads(of.k, heads_);
    const auto type = slot_type(keys, keys, config_.length, state);
    const auto by_head = [&](const Tensor& t) { return split_heads(t, heads_).to(type); };
    const auto q = by_head(of.q), k = keys.to(type), v = config_.tied ? k : by_head(of.v);
    const auto slots = by_head(scaled((*pack_query_)(p), heads_));  // [B or 1, H, R, C / H]
    const auto w = without_padding(psi(products(by_head(of.pack_key), slots)), context.mask.keep);
    const auto y = read_slots({.q = q, .k = k, .v = v},
                              {.weights = w,
                               .divisor = (seen + 1).to(wide(x)).unsqueeze(1).unsqueeze(-1),
                               .scale = 1 / std::sqrt(static_cast<double>(q.size(3)))},
                              {config_.dropout, is_training(), path_}, context, state);
    return (*output_)(merge_heads(y).to(x.scalar_type()));
  }

  struct Projected {
    Tensor q, k, v, pack_key;  // [B, N or M, C]
  };
  Projected projected(const Tensor& x, const Tensor& memory) const {
    const auto tokens = (*pack_value_)(memory);
    return {(*query_)(x), (*key_)(tokens), (*value_)(tokens), (*pack_key_)(memory)};
  }
  Projected projected(const Tensor& x) const {
    std::vector<const Linear*> layers = {query_.get(), key_.get(), pack_key_.get()};
    if (!config_.tied) layers.push_back(value_.get());
    const auto rows = project_together(x, layers);
    return {rows[0], rows[1], config_.tied ? rows[1] : rows[3], rows[2]};
  }

  // Of tokens [B, H, M, D] and slots [B or 1, H, R, D]: [B, H, M, R]. One matrix for each head,
  // where all sequences have the same slots, needs no copy of the tokens.
  static Tensor products(const Tensor& tokens, const Tensor& slots) {
    if (slots.size(0) > 1) return tokens.matmul(slots.transpose(-2, -1));
    const auto all = tokens.transpose(0, 1).flatten(1, 2);  // [H, B M, D]
    return all.bmm(slots.squeeze(0).transpose(-2, -1))
        .unflatten(1, {tokens.size(0), -1})
        .transpose(0, 1);
  }

  Tensor psi(const Tensor& x) const {
    constexpr double kLinearBeyond = 40;  // exp(-40) is nothing beside 40, even in float64
    return config_.psi == Psi::elu ? elu_plus_one(x)
                                   : at::softplus(x, std::numbers::ln2, kLinearBeyond);
  }

  Tensor first() const {  // [1, R, C]
    return (positions_.defined() ? p_ + positions_ : p_).unsqueeze(0);
  }

  Tensor carried(const Context& context) const {
    const auto found = context.carry.find(carry_);
    return found == context.carry.end() ? first() : found->second;
  }

  static Tensor scaled(const Tensor& x, int64_t heads) {
    return x / std::sqrt(static_cast<double>(x.size(-1) / heads));
  }

  // The paper starts all but the output projection smaller.
  std::shared_ptr<Linear> projection(const Site& site, const std::string& name, int64_t in,
                                     int64_t out) {
    const auto result = linear(site, name, in, out);
    const at::NoGradGuard no_grad;
    if (site.init == "paper") result->weight.mul_(1 / std::numbers::sqrt2);
    return result;
  }

  // The stack's first P, or the layer's own when there is no stack. In a decoder it is that of the
  // cross-attention, where this has one of the same shape.
  Tensor sequence(const Site& site) {
    const std::vector<int64_t> shape = {config_.length, site.shape.width};
    const auto width = static_cast<double>(site.shape.width);
    const double deviation = site.init == "bert" ? 0.02 : 1 / std::sqrt(width);
    if (!site.shared) return parameter("p", initial_normal(site, "p", shape, deviation));
    if (const auto beside = of_cross_attention(*site.shared); beside.defined() && !site.cross) {
      if (beside.sizes() == at::IntArrayRef(shape)) {
        carry_ = kCommon;
        return beside;
      }
    }
    return shared_normal(site, "luna_p", shape, deviation);
  }
  static Tensor of_cross_attention(const Shared& shared) {
    const auto parameters = shared.named_parameters();
    const auto* found = parameters.find("cross.luna_p");
    return found ? *found : Tensor();
  }

  // The name of P in the context: of this mixer alone, or of both mixers of a decoder.
  static constexpr const char *kOwn = "luna", *kCommon = "all.luna";

  Config config_;
  int64_t heads_, pack_heads_;
  std::string path_, carry_;
  std::shared_ptr<Linear> pack_query_, pack_key_, pack_value_, query_, key_, value_, output_;
  std::shared_ptr<LayerNorm> norm_;
  Tensor p_, positions_;  // [R, C]; the second or undefined
};

void check(const Config& c, const Site& site) {
  const auto& shape = site.shape;
  require_option(c.pack_heads == 0 || shape.width % c.pack_heads == 0, "pack_heads",
                 c10::str("is ", c.pack_heads, ", which does not divide the width ", shape.width,
                          " of the extra sequence"),
                 "take a divisor of the width");
  require_option(shape.width % shape.heads == 0, "",
                 c10::str("cannot divide an extra sequence of width ", shape.width, " among ",
                          shape.heads, " heads"),
                 "take a width that is a multiple of the heads");
}

// P has as many rows in all layers.
OptionValues common(const Config& c, const Site&) {
  return {{"length", std::to_string(c.length)}};
}

Promises promises(const Config& c) {
  return {.padding = c.shorten == Shorten::batch ? Padding::contents : Padding::invisible,
          .future = Future::exact,
          .cross = true,
          .decode = true};
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<Luna>(site, c);
}

}  // namespace

Mechanism luna_mechanism() {
  auto row = over_tokens<Config>(
      {.name = "luna",
       .family = "low rank",
       .paper = "arXiv:2106.01540",
       .cost = "O(N R D)",
       .summary = "A short extra sequence packs the tokens, the tokens read it, and it goes on to "
                  "the next layer.",
       .exact = "length = M and a pack that copies each token: softmax",
       .variants = {{"untied", "{length: 5, tied: false}"},
                    {"pack_heads", "{length: 5, pack_heads: 4}"},
                    {"elu", "{length: 5, psi: elu, tied: false, pack_heads: 1}"},
                    {"short", "{length: 40, shorten: row, positions: true}"},
                    {"cut", "{length: 40, shorten: batch}"}}},
      promises, make, check);
  return with_common(row, common);
}

}  // namespace longbow
