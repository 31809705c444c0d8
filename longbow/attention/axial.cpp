// Axial attention (Ho et al., 2019, arXiv:1912.12180): tokens stand on a grid in raster order, and
// a token attends along its column and along its row, by two attentions with projections of their
// own.
//   sequential  y = row(column(x)): every token has a path to every other
//   sum         y = row(x) + column(x)
// Under a causal mask both are masked within their lines, and the sequential form is
//   u = column(row(x)) with whole rows and a causal column, moved down by one row,
//   y = row(x + u) with a causal row,
// so that a token sees all of the rows before its own. With `span` the attention is that of
// Axial-DeepLab (Wang et al., 2020, arXiv:2003.07853): it knows how far apart cells are,
//   o_i = sum_j p_ij (v_j + c_{j-i}),   p_i = softmax_j((q_i k_j + q_i a_{j-i} + k_j b_{j-i}) /
//   sqrt D), |j - i| <= span.
// Exact when the tokens are one row and only rows are read.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/grid.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/softmax/band.h"
#include "longbow/nn/softmax/columns.h"
#include "longbow/nn/softmax/exact_attention.h"
#include "longbow/ops/order_softmax.h"

namespace longbow {
namespace {

enum class Combine { sequential, sum };
constexpr std::array<std::string_view, 2> names_of(Combine) {
  return {"sequential", "sum"};
}
enum class Axes { both, rows, columns };
constexpr std::array<std::string_view, 3> names_of(Axes) {
  return {"both", "rows", "columns"};
}

struct Config {
  Combine combine = Combine::sequential;
  Axes axes = Axes::both;
  int64_t columns = 0, span = 0;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("combine", c.combine, "rows read what columns have read, or both read the tokens");
  v("axes", c.axes, "both, or one alone, to be alternated by layers");
  v("columns", c.columns,
    "tokens in a row; 0 = those of the image where the tokens are one, else the root of the "
    "model's max_length",
    at_least(0));
  v("span", c.span,
    "position-sensitive: cells at most so far apart, with learned vectors for every distance; 0 = "
    "the whole line, without",
    range(0, 65536));
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
}

// Attention within lines: rows or columns, which stand in the batch.
class Line : public Part {
 public:
  Line(const Site& site, const Config& config)
      : heads_(site.shape.heads),
        span_(config.span),
        dropout_(config.dropout),
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {
    const auto& shape = site.shape;
    query_ = linear(site, "query", shape.width, shape.inner());
    key_ = linear(site, "key", shape.width, shape.inner());
    value_ = linear(site, "value", shape.width, shape.inner());
    output_ = linear(site, "output", shape.inner(), shape.width);
    if (span_ == 0) {
      whole_ = register_module("whole", std::make_shared<ExactAttention>(site, config.dropout));
      return;
    }
    const auto table = [&](const std::string& name) {
      constexpr double kDeviation = 0.02;
      return parameter(name, initial_normal(site, name, {2 * span_ + 1, shape.head()}, kDeviation),
                       {.decay = false});
    };
    to_query_ = table("to_query");
    to_key_ = table("to_key");
    to_value_ = table("to_value");
  }

  // x [B, L, C] -> [B, L, C]; real cells stand first in each line.
  Tensor operator()(const Tensor& x, const Mask& mask, const Context& context) const {
    Context inner = context;
    inner.mask = mask;
    const auto heads = heads_of(x);
    if (whole_) return merged(whole_->attend(heads, inner));
    const int64_t n = x.size(1);
    const int64_t reach = std::min(span_, n - 1), ahead = mask.causal ? 0 : reach;
    const auto band = reach == n - 1 ? Band{.tokens = n, .tile = n, .back = 0, .ahead = 0}
                                     : Band::around(n, reach, ahead);
    const auto index = [&](int64_t first, int64_t end) {
      return at::arange(first, end, x.options().dtype(at::kLong));
    };
    const auto distance =
        index(-band.back, band.tile + band.ahead) - index(0, band.tile).unsqueeze(1);  // [T, S]
    const auto visible = band.visible(within(reach, ahead), mask.keep, x.device());
    return merged(band.together(read(band.queries(heads.q), band.keys(heads.k), band.keys(heads.v),
                                     distance, visible, inner)));
  }

  // Whether kernels read whole lines where their tokens lie.
  bool reads_in_place(const Tensor& x, const Context& context) const {
    if (!whole_ || context.maps || (is_training() && dropout_ > 0)) return false;
    const auto some =
        x.narrow(2, 0, std::min(x.size(2), query_->weight.size(0) / heads_)).unsqueeze(1);
    return has_order_kernel(some, some, some);
  }
  // The same of tokens x [B, N, C] in rows, one after another: each reads its row, or its column.
  Tensor in_rows(const Tensor& x, int64_t columns, bool causal, const Context& context) const {
    const auto heads = heads_of(x);
    const auto pairs = near_blocks(x.size(1), columns, 0, 0, x.device());
    return merged(read_blocks(heads.q, heads.k, heads.v, pairs, seen_by(causal, context), {},
                              context, {}, {}, scale_)
                      .mean);
  }
  Tensor in_columns(const Tensor& x, int64_t columns, bool causal, const Context& context) const {
    return merged(read_columns(heads_of(x), columns, seen_by(causal, context), scale_).mean);
  }

  // The last cells of a lane, slot = position mod slots, and one slot more for padded tokens.
  void open(State& state, const std::string& name, int64_t lanes, int64_t slots) const {
    const auto options = query_->weight.options().requires_grad(false);
    const int64_t width = query_->weight.size(0) / heads_;
    for (const auto* what : {"_keys", "_values"})
      state.add(name + what, {lanes, heads_, slots + 1, width}, options);
  }

  // New tokens are written, and each reads its line: `cells` [B, T, L] are slots, of which those
  // up to its own place in the line, `own` [B, T], are filled.
  Tensor grow(const Tensor& x, State& state, const std::string& name, const Tensor& cells,
              const Tensor& own, Context& context) const {
    auto &keys = state.lane.at(name + "_keys"), &values = state.lane.at(name + "_values");
    const int64_t slots = keys.size(2) - 1;
    const auto heads = heads_of(x);
    const auto place = slots_of(heads, context, -1);
    const auto slot = place.remainder(slots).masked_fill(place < 0, slots);
    write_slots(keys, slot, heads.k);
    write_slots(values, slot, heads.v);
    const auto line = [&](const Tensor& lane) {  // [B, H, T, L, D]
      const auto index = cells.flatten(1).unsqueeze(1).unsqueeze(-1);
      return lane.gather(2, index.expand({-1, heads_, -1, lane.size(3)}))
          .unflatten(2, {cells.size(1), cells.size(2)});
    };
    const auto distance = at::arange(cells.size(2), own.options()) - own.unsqueeze(-1);
    const auto by_token = distance.unsqueeze(1).unsqueeze(3);  // [B, 1, T, 1, L]
    auto visible = by_token <= 0;
    if (span_ > 0) visible = visible.logical_and(by_token >= -span_);
    const auto q = whole_ ? heads.q * scale_ : heads.q;
    return merged(
        read(q.unsqueeze(3), line(keys), line(values), by_token, visible, context).squeeze(3));
  }

 private:
  // q is scaled here unless another attention scales it.
  Heads heads_of(const Tensor& x) const {
    const auto rows = project_together(x, {query_.get(), key_.get(), value_.get()});
    const auto split = [&](size_t i) { return split_heads(rows[i], heads_); };
    const auto q = split(0);
    return {whole_ ? q : q * scale_, split(1), split(2), x, x};
  }
  Tensor merged(const Tensor& heads) const { return (*output_)(merge_heads(heads)); }
  static Visibility seen_by(bool causal, const Context& context) {
    return {.ahead = causal ? 0 : Visibility::kAll, .keep = kept_keys(context.mask.keep)};
  }

  // q [.., T, D] reads k, v [.., S, D] that are `distance` away, broadcast to [.., T, S].
  Tensor read(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& distance,
              const Tensor& visible, const Context& context) const {
    auto scores = q.matmul(k.transpose(-2, -1));
    Tensor index;
    if (span_ > 0) {
      index = (distance + span_).clamp(0, 2 * span_).expand(scores.sizes());
      const auto of_query = q.matmul(to_query_.t()), of_key = k.matmul(to_key_.t()) * scale_;
      scores = scores + of_query.gather(-1, index) +
               of_key.gather(-1, index.transpose(-2, -1)).transpose(-2, -1);
    }
    const auto weights = masked_softmax(scores, visible);
    if (context.maps) (*context.maps)[path_] = weights.detach();
    const auto p = dropout(weights, dropout_, is_training(), context, path_ + ".dropout");
    const auto y = p.to(v.scalar_type()).matmul(v);
    if (span_ == 0) return y;
    // Weights by distance; those beyond the span are zero.
    auto shape = p.sizes().vec();
    shape.back() = 2 * span_ + 1;
    const auto by_distance = at::zeros(shape, p.options()).scatter_add(-1, index, p);
    return y + by_distance.to(v.scalar_type()).matmul(to_value_);
  }

  int64_t heads_, span_;
  double dropout_;
  std::string path_;
  double scale_;
  std::shared_ptr<Linear> query_, key_, value_, output_;
  std::shared_ptr<ExactAttention> whole_;
  Tensor to_query_, to_key_, to_value_;  // [2 span + 1, D], shared by heads and lines
};

class Axial : public MixerImpl {
 public:
  Axial(const Site& site, const Config& config)
      : config_(config), columns_(grid_columns(config.columns, site.shape)) {
    TORCH_CHECK(columns_ > 0, "axial: needs columns, or the model's max_length");
    const auto line = [&](const std::string& name) {
      return register_module(name, std::make_shared<Line>(site.at(name), config));
    };
    if (config.axes != Axes::rows) column_ = line("column");
    if (config.axes != Axes::columns) row_ = line("row");
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto& line = row_ ? *row_ : *column_;
    if (line.reads_in_place(x, context)) return in_place(x, context);
    const auto cells = on_grid(x);  // [B, rows, columns, C]
    const auto keep = real_cells(x, context.mask.keep);
    const bool causal = context.mask.causal;
    const auto row = [&](const Tensor& t, bool masked) {
      const Mask mask = {.causal = masked, .keep = keep.defined() ? keep.flatten(0, 1) : keep};
      return (*row_)(t.flatten(0, 1), mask, context).unflatten(0, {x.size(0), -1});
    };
    const auto column = [&](const Tensor& t) {
      const auto turned = [](const Tensor& u) { return u.transpose(1, 2); };
      // The fused kernels want the places of a line beside each other.
      const Mask mask = {.causal = causal,
                         .keep = keep.defined() ? turned(keep).flatten(0, 1).contiguous() : keep};
      return turned(
          (*column_)(turned(t).flatten(0, 1), mask, context).unflatten(0, {x.size(0), columns_}));
    };
    const auto moved_down = [](const Tensor& u) {
      return at::constant_pad_nd(u, {0, 0, 0, 0, 1, -1});
    };
    const auto y = combined(cells, causal, row, column, moved_down).flatten(1, 2);
    return y.size(1) == x.size(1) ? y : y.narrow(1, 0, x.size(1));
  }

  // Keys and values of two rows, the second of which may begin within a piece, and of all rows.
  void open(State& state, int64_t lanes, int64_t capacity, Context&) override {
    if (row_) row_->open(state, "row", lanes, 2 * columns_);
    if (column_)
      column_->open(state, "column", lanes, (capacity + columns_ - 1) / columns_ * columns_);
  }

  Tensor grow(const Tensor& x, State& state, Context& context) override {
    std::vector<Tensor> outputs;
    for (int64_t first = 0; first < x.size(1); first += columns_) {
      const int64_t count = std::min(columns_, x.size(1) - first);
      Context inner = context;
      inner.positions = context.positions.expand({x.size(0), x.size(1)}).narrow(1, first, count);
      if (context.mask.keep.defined()) inner.mask.keep = context.mask.keep.narrow(1, first, count);
      outputs.push_back(grow_piece(x.narrow(1, first, count), state, inner));
    }
    return at::cat(outputs, 1);
  }

 private:
  Tensor grow_piece(const Tensor& x, State& state, Context& context) const {
    const auto row = context.positions.floor_divide(columns_),
               column = context.positions.remainder(columns_);  // [B, T]
    const auto index = [&](int64_t count) { return at::arange(count, row.options()); };
    Tensor y;
    if (row_) {
      const auto cells = row.remainder(2).unsqueeze(-1) * columns_ + index(columns_);
      y = row_->grow(x, state, "row", cells, column, context);
    }
    if (!column_) return y;
    const int64_t rows = (state.lane.at("column_keys").size(2) - 1) / columns_;
    const auto cells = index(rows) * columns_ + column.unsqueeze(-1);
    const auto z = column_->grow(x, state, "column", cells, row, context);
    return y.defined() ? y + z : z;
  }

  // Tokens as cells or as they are, by what reads rows, with whether the future of a row is hidden,
  // and columns.
  template <class Row, class Column, class Down>
  Tensor combined(const Tensor& x, bool causal, const Row& row, const Column& column,
                  const Down& moved_down) const {
    if (config_.axes == Axes::rows) return row(x, causal);
    if (config_.axes == Axes::columns) return column(x);
    if (config_.combine == Combine::sum) return row(x, causal) + column(x);
    return row(causal ? x + moved_down(column(row(x, false))) : column(x), causal);
  }
  Tensor in_place(const Tensor& x, const Context& context) const {
    const bool causal = context.mask.causal;
    const auto row = [&](const Tensor& t, bool masked) {
      return row_->in_rows(t, columns_, masked, context);
    };
    const auto column = [&](const Tensor& t) {
      return column_->in_columns(t, columns_, causal, context);
    };
    const auto moved_down = [&](const Tensor& u) {
      const int64_t down = std::min(columns_, u.size(1));
      return at::constant_pad_nd(u, {0, 0, down, -down});
    };
    return combined(x, causal, row, column, moved_down);
  }

  int64_t rows_of(const Tensor& x) const { return (x.size(1) + columns_ - 1) / columns_; }
  Tensor on_grid(const Tensor& x) const {
    const int64_t missing = rows_of(x) * columns_ - x.size(1);
    return (missing > 0 ? at::constant_pad_nd(x, {0, 0, 0, missing}) : x)
        .unflatten(1, {-1, columns_});
  }
  // [B, rows, columns] bool; undefined where every cell holds a real token.
  Tensor real_cells(const Tensor& x, const Tensor& keep) const {
    const int64_t missing = rows_of(x) * columns_ - x.size(1);
    if (!keep.defined() && missing == 0) return keep;
    const auto all =
        keep.defined() ? keep : at::ones({x.size(0), x.size(1)}, x.options().dtype(at::kBool));
    return at::constant_pad_nd(all, {0, missing}).unflatten(1, {-1, columns_});
  }

  Config config_;
  int64_t columns_;
  std::shared_ptr<Line> row_, column_;
};

void check(const Config& c, const Site& site) {
  check_grid(c.columns, site.shape);
}

// A grid that is not given is as wide as it is high. The sequential form would have to form the
// context of a whole row with each token.
Promises promises(const Config& c) {
  const double lines = c.columns == 0 ? 1.5 : c.axes == Axes::rows ? 1 : 2;
  return {.future = Future::exact,
          .decode = c.axes != Axes::both || c.combine == Combine::sum,
          .positional = true,
          .time = c.span > 0 ? 1 : lines};
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<Axial>(site, c);
}

}  // namespace

Mechanism axial_mechanism() {
  return over_tokens<Config>(
      {.name = "axial",
       .family = "sparse",
       .paper = "arXiv:1912.12180",
       .cost = "O(N sqrt(N) D)",
       .summary = "Tokens on a grid attend along their column and along their row.",
       .exact = "axes: rows and columns >= N: softmax",
       .variants = {{"sum", "{combine: sum}"},
                    {"rows", "{axes: rows, columns: 9}"},
                    {"columns", "{axes: columns, columns: 7}"},
                    {"span", "{span: 3}"},
                    {"span_sum", "{combine: sum, columns: 8, span: 4}"}}},
      promises, make, check);
}

}  // namespace longbow
