// KVT (Wang et al., 2021, arXiv:2106.00515): softmax attention over the k nearest keys of each
// query, those with the largest scores among the visible ones:
//   o_i = sum_(j in T_i) softmax_(j in T_i)(q_i . k_j / sqrt D) v_j,   |T_i| = min(k, visible
//   keys).
// The choice T_i is a constant to the gradient. Exact when k >= M; k = 1 reads the best key alone.
// Keys are ordered by larger score, then by smaller index; the last one of T_i, its border, says
// all about T_i: a first pass over whole rows of scores finds it, a second one reads up to it. On a
// GPU kernels do both without writing scores (ops/pair_product.h).
#include <ATen/ATen.h>

#include <limits>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax/tiles.h"

namespace longbow {
namespace {

enum class Ties { exact_k, threshold };
constexpr std::array<std::string_view, 2> names_of(Ties) {
  return {"exact_k", "threshold"};
}

struct Config {
  int64_t k = 100;
  double k_ratio = 0;
  Ties ties = Ties::exact_k;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("k", c.k, "keys that a query keeps", at_least(1));
  v("k_ratio", c.k_ratio, "above 0: keep this part of the visible keys, rounded up, in place of k",
    range(0, 1));
  v("ties", c.ties,
    "scores equal to the k-th largest: keep the first keys up to k, or all above the threshold");
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-9;  // 0.1 x 30 is 3, not a little more

// Room for some numbers beside each query of a tile, shared by all tiles.
class Room {
 public:
  Room(const Tensor& border, const Tiling& tiling, int64_t columns, at::ScalarType type)
      : slabs_(border.size(0)),
        numbers_(at::empty({slabs_ * std::min(tiling.queries, border.size(1)) * columns},
                           border.options().dtype(type))) {}
  Tensor operator()(const Tile& t) const { return (*this)(t, t.columns); }
  Tensor operator()(const Tile& t, int64_t columns) const {
    return numbers_.narrow(0, 0, slabs_ * t.rows * columns).view({slabs_, t.rows, columns});
  }

 private:
  int64_t slabs_;
  Tensor numbers_;
};

// The first pass: writes the borders [B H, N, 1] int64, chosen in float32 at least, because half
// types make ties.
class Choosing {
 public:
  Choosing(const Config& config, const Tensor& border, const Tiling& tiling, at::ScalarType type)
      : config_(config),
        border_(border),
        flags_(border, tiling, tiling.keys, at::kBool),
        counts_(border, tiling, tiling.keys, at::kInt),
        values_(border, tiling, budget(tiling.keys), type),
        places_(border, tiling, budget(tiling.keys), at::kLong) {}

  void operator()(const Tile& t, const Tensor& a) const {
    const int64_t most = budget(t.columns);
    auto values = values_(t, most), places = places_(t, most), flags = flags_(t);
    at::topk_out(values, places, a, most);
    const auto room = budget(t, a, most);           // [B H, rows, 1]
    const auto least = values.gather(2, room - 1);  // -inf when fewer keys are visible
    if (config_.ties == Ties::threshold) {
      t.of_queries(border_).copy_(places.gather(2, room - 1));
      return;
    }
    const auto left = room - counted(t, at::gt_out(flags, a, least));  // ties to keep
    const auto ties = counts_(t).copy_(at::eq_out(flags, a, least)).cumsum_(2);
    const auto border = counted(t, at::lt_out(flags, ties, left.to(at::kInt)));
    // NaN is neither above nor equal to another score: with the last key for its border nothing is
    // hidden, and NaN is what is read.
    t.of_queries(border_).copy_(border.clamp_max(t.columns - 1));
  }

 private:
  // Keys that a query may keep when it sees so many.
  int64_t budget(int64_t seen) const {
    if (config_.k_ratio == 0) return std::min(config_.k, seen);
    const double part = static_cast<double>(seen) * config_.k_ratio;
    return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(part - kRounding)), 1, seen);
  }
  Tensor budget(const Tile& t, const Tensor& a, int64_t most) const {
    if (config_.k_ratio == 0) return at::full({a.size(0), t.rows, 1}, most, border_.options());
    auto flags = flags_(t);
    const auto part = counted(t, at::ne_out(flags, a, -kInfinity)).to(at::kDouble);
    return (part * config_.k_ratio - kRounding).ceil().to(at::kLong).clamp(1, most);
  }
  // True flags of each row. [B H, rows, 1]
  Tensor counted(const Tile& t, const Tensor& flags) const {
    return counts_(t).copy_(flags).sum({2}, true, at::kInt).to(at::kLong);
  }

  const Config& config_;
  Tensor border_;
  Room flags_, counts_, values_, places_;
};

// The second pass: hides the keys after the borders.
OnTile hiding(Ties ties, const Tensor& border, const Tiling& tiling) {
  const Room flags_room(border, tiling, tiling.keys, at::kBool),
      later_room(border, tiling, tiling.keys, at::kBool);
  const auto index = at::arange(tiling.keys, border.options());
  return [=](const Tile& t, const Tensor& a) {
    const auto last = t.of_queries(border), least = a.gather(2, last);
    auto flags = flags_room(t), later = later_room(t);
    a.masked_fill_(at::lt_out(flags, a, least), -kInfinity);
    if (ties == Ties::threshold) return;
    at::gt_out(later, index.narrow(0, 0, t.columns), last);
    a.masked_fill_(at::eq_out(flags, a, least).logical_and_(later), -kInfinity);
  };
}

class Kvt : public AllPairs {
 public:
  Kvt(const Site& site, const Config& config) : AllPairs(site, config.dropout), config_(config) {}

  // In training a choice is replayed on the same scores (recomputation), so that its borders say
  // all. Otherwise the scores may be others, and the members are kept.
  Tensor attend(const Heads& heads, Context& context) override {
    const auto seen = Seen::by(context.mask);
    const auto sight = seen.sight(scale_);
    const bool replays = context.choices && !is_training();
    if (!replays && !context.maps && !drops() && sight &&
        has_pair_kernel(heads.q, heads.k, heads.v)) {
      const auto top = context.pick(path_ + ".top", [&] {
        return top_keys(heads.q, heads.k, *sight, budgets(heads, *sight),
                        config_.ties == Ties::threshold);
      });
      return top_product(heads.q, heads.k, heads.v, *sight, top).to(heads.v.scalar_type());
    }
    if (!replays)
      return read_up_to(context.pick(path_ + ".border", [&] { return borders(heads, seen); }),
                        heads, seen, context);
    const auto members = context.pick(path_ + ".members", [&] {
      return members_of(heads, seen, ending_at(borders(heads, seen), heads.k.size(2)));
    });
    return weighed(heads, {.visible = members}, {}, context);
  }

 protected:
  Tensor read(const Heads& heads, const Seen& seen, Context& context) override {
    return read_up_to(borders(heads, seen), heads, seen, context);
  }

 private:
  // How many keys each query may keep: [1 or B, N] int32.
  Tensor budgets(const Heads& heads, const PairSight& sight) const {
    const int64_t n = heads.q.size(2), m = heads.k.size(2);
    const auto options = heads.q.options().dtype(at::kInt);
    if (config_.k_ratio == 0) return at::full({1, n}, std::min(config_.k, m), options);
    auto seen = sight.keep.defined() ? sight.keep.to(at::kDouble)
                                     : at::ones({1, m}, options.dtype(at::kDouble));
    if (sight.causal) {  // up to key i + (M - N), of which there may be none
      const auto last = at::arange(m - n, m, options.dtype(at::kLong));
      seen = at::constant_pad_nd(seen.cumsum(1), {1, 0}).index_select(1, last.add_(1).clamp_min(0));
    } else {
      seen = seen.sum(1, true).expand({-1, n});
    }
    return (seen * config_.k_ratio - kRounding).ceil().clamp(1, m).to(at::kInt);
  }

  // The last key of each query's choice: [B, H, N] int64.
  Tensor borders(const Heads& heads, const Seen& seen) const {
    const auto tiling = Tiling::of_rows(heads.k.size(2));
    const auto q = scaled(heads.q);
    const auto border = at::zeros({q.size(0), q.size(1), q.size(2)}, q.options().dtype(at::kLong));
    each_tile(q, heads.k, seen, tiling, Choosing(config_, by_row(border), tiling, q.scalar_type()));
    return border;
  }

  // Whole rows of scores that end at the border.
  Tiling ending_at(const Tensor& border, int64_t keys) const {
    auto tiling = Tiling::of_rows(keys);
    tiling.hide = [ties = config_.ties, rows = by_row(border), sizes = tiling] {
      return hiding(ties, rows, sizes);
    };
    return tiling;
  }

  static Tensor by_row(const Tensor& border) { return border.flatten(0, 1).unsqueeze(-1); }

  Tensor read_up_to(const Tensor& border, const Heads& heads, const Seen& seen, Context& context) {
    const auto tiling = ending_at(border, heads.k.size(2));
    if (context.maps)
      return weighed(heads, {.visible = members_of(heads, seen, tiling)}, {}, context);
    return weighed(heads, seen, tiling, context);
  }

  // [B, H, N, M] bool, for those who look at the choice or fix it.
  Tensor members_of(const Heads& heads, const Seen& seen, const Tiling& tiling) const {
    const auto& q = heads.q;
    const auto members =
        at::zeros({q.size(0), q.size(1), q.size(2), heads.k.size(2)}, q.options().dtype(at::kBool));
    each_tile(scaled(q), heads.k, seen, tiling, [&](const Tile& t, const Tensor& a) {
      t.of_queries(members.flatten(0, 1)).narrow(2, t.column, t.columns).copy_(a != -kInfinity);
    });
    return members;
  }

  Tensor weighed(const Heads& heads, const Seen& seen, const Tiling& tiling, Context& context) {
    if (context.maps)
      return softmax_read(heads.q * scale_, heads.k, heads.v, seen.visible, weighing(), context);
    return tiled_softmax(scaled(heads.q), heads.k, heads.v, seen, tiling, weighing(), context)
        .to(heads.v.scalar_type());
  }

  Config config_;
};

Promises promises(const Config&) {
  return AllPairs::promised();
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<Kvt>(site, c);
}

}  // namespace

Mechanism kvt_mechanism() {
  return over_heads<Config>(
      {.name = "kvt",
       .family = "sparse",
       .paper = "arXiv:2106.00515",
       .cost = "O(N M D)",
       .summary = "Every query reads the k keys with the largest scores and no other.",
       .exact = "k >= M: softmax; k = 1: the value of the best key",
       .variants = {{"few", "{k: 5}"},
                    {"ratio", "{k_ratio: 0.25}"},
                    {"threshold", "{k: 7, ties: threshold}"}}},
      promises, make);
}

}  // namespace longbow
