// Memory-efficient attention (Rabe and Staats, 2021, arXiv:2112.05682; the backward pass as in Dao
// et al., 2022, arXiv:2205.14135): softmax attention itself, on another schedule. The scores exist
// one tile of queries x keys at a time; a row of queries keeps a running maximum m, the sum l of
// its weights and the unnormalised output o, and each tile of keys updates them:
//   a = q k^T / sqrt D,  m' = max(m, max_j a_j),  p = exp(a - m'),  c = exp(m - m'),
//   l <- c l + sum_j p_j,  o <- c o + p v,  m <- m';          at the end o / l, and L = m + ln l.
// The backward pass keeps q, k, v, o and L, and computes the weights p = exp(a - L) again:
//   dv += p^T do,  ds = p * (do v^T - sum_c do_c o_c),  dq += ds k / sqrt D,  dk += ds^T q / sqrt
//   D.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax.h"

namespace longbow {
namespace {

struct Config {
  int64_t query_chunk = 256, key_chunk = 1024;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("query_chunk", c.query_chunk, "queries in a tile of scores", range(1, 65536));
  v("key_chunk", c.key_chunk, "keys in a tile of scores", range(1, 65536));
  v("dropout", c.dropout, "rate on the attention weights, drawn tile by tile", range(0, 0.99));
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using torch::autograd::AutogradContext, torch::autograd::variable_list;

struct Schedule {
  int64_t query_chunk, key_chunk;
  bool causal;
  double dropout;    // 0 outside training
  std::string site;  // of the random numbers

  void save(AutogradContext& context) const {
    context.saved_data["sizes"] = std::vector<int64_t>{query_chunk, key_chunk, causal};
    context.saved_data["dropout"] = dropout;
    context.saved_data["site"] = site;
  }
  static Schedule load(AutogradContext& context) {
    const auto sizes = context.saved_data["sizes"].toIntVector();
    return {sizes[0], sizes[1], sizes[2] != 0, context.saved_data["dropout"].toDouble(),
            context.saved_data["site"].toStringRef()};
  }
};

// The tiles of scores, one after the other in a buffer that all of them share.
class Tiles {
 public:
  Tiles(const Tensor& q, const Tensor& k, const Tensor& hidden, const Tensor& key,
        const Schedule& schedule)
      : q_(q), k_(k), hidden_(hidden), schedule_(schedule), buffer_(room()) {
    random_.random.key = key;
  }

  struct Tile {
    int64_t row, rows, column, columns;
    Tensor of_queries(const Tensor& x) const { return x.narrow(1, row, rows); }
    Tensor of_keys(const Tensor& x) const { return x.narrow(1, column, columns); }
  };

  Tensor room() const {
    return at::empty({q_.size(0) * std::min(schedule_.query_chunk, q_.size(1)) *
                      std::min(schedule_.key_chunk, k_.size(1))},
                     q_.options());
  }
  Tensor shaped(const Tensor& room, const Tile& t) const {
    return room.narrow(0, 0, q_.size(0) * t.rows * t.columns).view({q_.size(0), t.rows, t.columns});
  }

  // body(tile, scores [G, rows, columns]), tile by tile along the keys of each chunk of queries.
  // Hidden scores are -inf; tiles that lie wholly in the future are left out.
  template <class F>
  void each(const F& body) const {
    const int64_t n = q_.size(1), m = k_.size(1);
    Tile t = {};
    for (t.row = 0; t.row < n; t.row += schedule_.query_chunk) {
      t.rows = std::min(schedule_.query_chunk, n - t.row);
      const int64_t last = t.row + m - n;  // key that the first query of the chunk sees last
      const int64_t end = schedule_.causal ? std::clamp<int64_t>(last + t.rows, 0, m) : m;
      for (t.column = 0; t.column < end; t.column += schedule_.key_chunk) {
        t.columns = std::min(schedule_.key_chunk, end - t.column);
        auto a = shaped(buffer_, t);
        at::bmm_out(a, t.of_queries(q_), t.of_keys(k_).transpose(1, 2));
        if (schedule_.causal && t.column + t.columns > last + 1)
          a.masked_fill_(at::ones({t.rows, t.columns}, a.options().dtype(at::kBool))
                             .triu_(last + 1 - t.column),
                         -kInfinity);
        if (hidden_.defined()) {
          const auto rows = hidden_.size(2) == 1 ? hidden_ : hidden_.narrow(2, t.row, t.rows);
          a.unflatten(0, {hidden_.size(0), -1})
              .masked_fill_(rows.narrow(3, t.column, t.columns), -kInfinity);
        }
        body(t, a);
      }
    }
  }

  // The same elements of a tile are dropped whenever it is asked for.
  Tensor dropped(const Tensor& x, const Tile& t) const {
    const auto site = schedule_.site + "." + std::to_string(t.row) + "." + std::to_string(t.column);
    return dropout(x, schedule_.dropout, true, random_, site);
  }

 private:
  Tensor q_, k_, hidden_;
  const Schedule& schedule_;
  Context random_;
  Tensor buffer_;
};

// softmax(q k^T) v. q [G, N, D], k and v [G, M, D], hidden [B, 1, 1 or N, M] bool; G = B H.
struct Tiled : torch::autograd::Function<Tiled> {
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        const std::optional<Tensor>& hidden, const std::optional<Tensor>& key,
                        const Schedule& schedule) {
    // m starts at the least finite number, not at -inf: a row that has seen nothing yet has
    // p = exp(-inf - m) = 0 and c = exp(m - m) = 1 of nothing.
    const double least = q.scalar_type() == at::kDouble ? std::numeric_limits<double>::lowest()
                                                        : std::numeric_limits<float>::lowest();
    const auto o = at::zeros_like(q);
    const auto l = at::zeros({q.size(0), q.size(1), 1}, q.options()), m = at::full_like(l, least);
    const auto top_room = at::empty_like(l), sum_room = at::empty_like(l);
    const Tiles tiles(q, k, hidden.value_or(Tensor()), key.value_or(Tensor()), schedule);
    tiles.each([&](const Tiles::Tile& t, const Tensor& a) {
      const auto o_rows = t.of_queries(o), l_rows = t.of_queries(l), m_rows = t.of_queries(m);
      auto top = t.of_queries(top_room), sum = t.of_queries(sum_room);
      at::amax_out(top, a, {2}, true);
      at::maximum_out(top, top, m_rows);
      const auto& p = a.sub_(top).exp_();
      const auto& c = m_rows.sub_(top).exp_();
      at::sum_out(sum, p, {2}, true);
      l_rows.mul_(c).add_(sum);  // before anything is dropped
      o_rows.mul_(c).baddbmm_(tiles.dropped(p, t), t.of_keys(v));
      m_rows.copy_(top);
    });
    o.div_(l.clamp_min(1));  // l >= 1 as soon as a key is visible; without one, o = 0
    const auto lse = m.add_(l.log()).masked_fill_(l == 0, kInfinity);  // so that p = 0 again
    context->save_for_backward(
        {q, k, v, hidden.value_or(Tensor()), key.value_or(Tensor()), o, lse});
    schedule.save(*context);
    return o;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "memory_efficient: weights that are computed again have no second derivative; "
                "softmax with form: naive has");
    const auto saved = context->get_saved_variables();
    const auto &q = saved[0], &k = saved[1], &v = saved[2], &o = saved[5], &lse = saved[6];
    const auto schedule = Schedule::load(*context);
    const auto d_o = gradients[0].contiguous(), dq = at::zeros_like(q), dk = at::zeros_like(k),
               dv = at::zeros_like(v);
    const auto delta = (d_o * o).sum(2, true);  // [G, N, 1]
    const Tiles tiles(q, k, saved[3], saved[4], schedule);
    const auto room = tiles.room();
    tiles.each([&](const Tiles::Tile& t, const Tensor& a) {
      const auto& p = a.sub_(t.of_queries(lse)).exp_();
      const auto rows = t.of_queries(d_o);
      t.of_keys(dv).baddbmm_(tiles.dropped(p, t).transpose(1, 2), rows);
      auto dp = tiles.shaped(room, t);
      at::bmm_out(dp, rows, t.of_keys(v).transpose(1, 2));
      const auto ds = tiles.dropped(dp, t).sub_(t.of_queries(delta)).mul_(p);
      t.of_queries(dq).baddbmm_(ds, t.of_keys(k));
      t.of_keys(dk).baddbmm_(ds.transpose(1, 2), t.of_queries(q));
    });
    return {dq, dk, dv, Tensor(), Tensor(), Tensor()};
  }
};

class MemoryEfficient : public AttentionImpl {
 public:
  MemoryEfficient(const Site& site, const Config& config)
      : config_(config),
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {}

  Tensor attend(const Heads& heads, Context& context) override {
    const auto& mask = context.mask;
    if (context.maps)  // who looks at the weights wants all of them
      return softmax_read(heads.q * scale_, heads.k, heads.v,
                          visible_pairs(mask, heads.q.size(2), heads.k.size(2), heads.q.device()),
                          {config_.dropout, is_training(), path_}, context);
    const auto visible = mask.keep.defined() ? mask.keep.unsqueeze(1).unsqueeze(1) : Tensor();
    return read(heads.q, heads.k, heads.v, visible, mask.causal, context);
  }

  void open(State& state, const Heads& empty, int64_t capacity, Context&) override {
    open_cache(state, empty, capacity);
  }

  Tensor grow(const Heads& heads, State& state, Context& context) override {
    return in_pieces(heads, context, config_.query_chunk, [&](const Heads& piece, Context& inner) {
      const auto cached = grow_cache(piece, state, inner);
      return read(piece.q, cached.k, cached.v, cached.visible, false, inner);
    });
  }

 private:
  // visible [B, 1, 1 or N, M], or undefined.
  Tensor read(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible, bool causal,
              const Context& context) const {
    std::optional<Tensor> hidden, key;
    if (visible.defined()) hidden = visible.logical_not();
    if (context.random.key.defined()) key = context.random.key;
    const Schedule schedule = {config_.query_chunk, config_.key_chunk, causal,
                               is_training() ? config_.dropout : 0, path_ + ".dropout"};
    const auto flat = [](const Tensor& x) { return x.to(wide(x)).flatten(0, 1).contiguous(); };
    return Tiled::apply(flat(q) * scale_, flat(k), flat(v), hidden, key, schedule)
        .view(q.sizes())
        .to(v.scalar_type());
  }

  Config config_;
  std::string path_;
  double scale_;
};

Promises promises(const Config&) {
  return {.future = Future::exact, .cross = true, .decode = true, .time = 2, .memory = 1};
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<MemoryEfficient>(site, c);
}

}  // namespace

Mechanism memory_efficient_mechanism() {
  return over_heads<Config>(
      {.name = "memory_efficient",
       .family = "exact",
       .paper = "arXiv:2112.05682",
       .cost = "O(N M D)",
       .summary = "Softmax attention in tiles of queries and keys: no N x M tensor, forward or "
                  "backward.",
       .exact = "always",
       .variants = {{"small", "{query_chunk: 64, key_chunk: 32}"}}},
      promises, make);
}

}  // namespace longbow
