// Linformer (Wang et al., 2020, arXiv:2006.04768): keys and values are projected along the sequence
// from M to `rank` slots, so the scores are [N, R]:   o = softmax(q (E K)^T / sqrt D) (F V),   E, F
// [R, max length]. K = X W, and E (X W) = (E X) W: where all heads share E the tokens are projected
// first, once for all of them. Exact when rank = M and E = F is the identity (or any permutation).
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax.h"

namespace longbow {
namespace {

enum class Sharing { none, headwise, kv, layerwise };
constexpr std::array<std::string_view, 4> names_of(Sharing) {
  return {"none", "headwise", "kv", "layerwise"};
}

struct Config {
  int64_t rank = 64;
  int64_t max_length = 0;
  Sharing sharing = Sharing::kv;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("rank", c.rank, "slots that keys and values are projected to", range(1, 65536));
  v("max_length", c.max_length, "longest sequence of keys; 0 = what the model is built for",
    at_least(0));
  v("sharing", c.sharing,
    "who shares a projection: nobody; the heads of a layer (E and F apart); also keys and values; "
    "all layers");
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
}

class Linformer : public MixerImpl {
 public:
  Linformer(const Site& site, const Config& config)
      : config_(config),
        heads_(site.shape.heads),
        longest_(config.max_length > 0 ? config.max_length : site.source_length()),
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {
    const auto& shape = site.shape;
    const int64_t source = site.source_width();
    TORCH_CHECK(longest_ > 0, "linformer: needs max_length, here or in the model");
    query_ = linear(site, "query", shape.width, shape.inner());
    key_ = linear(site, "key", source, shape.inner());
    value_ = linear(site, "value", source, shape.inner());
    output_ = linear(site, "output", shape.inner(), shape.width);
    e_ = projection(site, "e");
    f_ = config.sharing == Sharing::kv || config.sharing == Sharing::layerwise
             ? e_
             : projection(site, "f");
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto source = context.memory.defined() ? context.memory : x;
    TORCH_CHECK(source.size(1) <= longest_, "linformer: ", source.size(1),
                " keys, but max_length is ", longest_);
    const auto keep = context.mask.keep;
    const auto tokens =
        keep.defined() ? source * keep.unsqueeze(-1).to(source.scalar_type()) : source;
    Tensor keys, values;  // [B, H, R, D]
    if (config_.sharing == Sharing::none) {
      keys = projected_heads(e_, *key_, tokens, keep);
      values = projected_heads(f_, *value_, tokens, keep);
    } else {
      const auto packed = slots(e_, tokens, keep);
      keys = projected_slots(packed, *key_);
      values = projected_slots(f_.is_same(e_) ? packed : slots(f_, tokens, keep), *value_);
    }
    const auto q = split_heads((*query_)(x), heads_) * scale_;
    const Weighing weighing = {config_.dropout, is_training(), path_};
    return (*output_)(
        merge_heads(softmax_read(q, keys, values, {}, weighing, context)));  // [N, R] scores
  }

 private:
  // E X for all heads at once, and E 1: what each slot makes of a bias. [B, R, Cm], [B or 1, R, 1]
  struct Slots {
    Tensor tokens, ones;
  };
  static Slots slots(const Tensor& e, const Tensor& tokens, const Tensor& keep) {
    const auto columns = e.narrow(-1, 0, tokens.size(1));
    const auto ones = keep.defined() ? columns.matmul(keep.unsqueeze(-1).to(e.scalar_type()))
                                     : columns.sum(-1, true).unsqueeze(0);
    return {columns.matmul(tokens), ones};
  }

  Tensor projected_slots(const Slots& packed, const Linear& projection) const {
    const auto y = at::linear(packed.tokens, projection.weight);
    return split_heads(projection.bias.defined() ? y + packed.ones * projection.bias : y, heads_);
  }

  // A projection per head: E_h (X W_h), because (E_h X) W_h would cost a factor of H more.
  Tensor projected_heads(const Tensor& e, const Linear& projection, const Tensor& tokens,
                         const Tensor& keep) const {
    auto rows = split_heads(projection(tokens), heads_);  // [B, H, M, D]
    if (keep.defined()) rows = rows * keep.unsqueeze(1).unsqueeze(-1).to(rows.scalar_type());
    return e.narrow(-1, 0, tokens.size(1)).matmul(rows);
  }

  Tensor projection(const Site& site, const std::string& name) {
    std::vector<int64_t> shape = {config_.rank, longest_};
    if (config_.sharing == Sharing::none) shape.insert(shape.begin(), heads_);
    // Xavier normal over the length axis.
    const double deviation = std::sqrt(2.0 / static_cast<double>(config_.rank + longest_));
    if (config_.sharing != Sharing::layerwise)
      return parameter(name, initial_normal(site, name, shape, deviation));
    TORCH_CHECK(site.shared, "linformer: layerwise sharing needs a stack that owns the projection");
    return shared_normal(site, site.cross ? "linformer_cross_e" : "linformer_e", shape, deviation);
  }

  Config config_;
  int64_t heads_, longest_;
  std::string path_;
  double scale_;
  std::shared_ptr<Linear> query_, key_, value_, output_;
  Tensor e_, f_;
};

Promises promises(const Config&) {
  return {.cross = true, .positional = true};
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<Linformer>(site, c);
}

}  // namespace

Mechanism linformer_mechanism() {
  return over_tokens<Config>(
      {.name = "linformer",
       .family = "low rank",
       .paper = "arXiv:2006.04768",
       .cost = "O(N R D)",
       .summary = "Keys and values are projected along the sequence to a fixed number of slots.",
       .exact = "rank = M and an identity projection: softmax",
       .variants = {{"none", "{rank: 16, sharing: none}"},
                    {"headwise", "{rank: 16, sharing: headwise}"},
                    {"layerwise", "{rank: 16, sharing: layerwise}"}}},
      promises, make);
}

}  // namespace longbow
