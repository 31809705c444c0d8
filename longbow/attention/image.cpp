// Image Transformer (Parmar et al., 2018, arXiv:1802.05751): queries of a block read the block and
// what is near it, in a sequence or on a grid.
//   1d  blocks of `block` tokens; a query reads its block and `memory` tokens before it, and after
//       it when not causal
//   2d  blocks of h x w cells; a query reads its block and a flange of m_h rows and m_w columns
//       around it
// and j <= i when causal. On a grid whose tokens come block by block that leaves the strip above
// the block, the strip to its left, and the tokens of the block up to the query: the paper's order
// of generation. Exact when one block holds all tokens.
#include <ATen/ATen.h>

#include "longbow/attention/image/grid_blocks.h"
#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/grid.h"
#include "longbow/nn/softmax/band.h"
#include "longbow/nn/softmax/blocks.h"

namespace longbow {
namespace {

enum class Form { line, grid };
constexpr std::array<std::string_view, 2> names_of(Form) {
  return {"1d", "2d"};
}
enum class Order { raster, blocks };
constexpr std::array<std::string_view, 2> names_of(Order) {
  return {"raster", "blocks"};
}

struct Config {
  Form form = Form::line;
  int64_t block = 256, memory = 256;
  int64_t block_rows = 8, block_columns = 16, flange_rows = 8, flange_columns = 16;
  int64_t columns = 0;
  Order order = Order::raster;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("form", c.form, "blocks of a sequence, or of a grid");
  v("block", c.block, "1d: tokens in a block", range(1, 65536));
  v("memory", c.memory, "1d: tokens before a block, and after it when not causal, that it reads",
    range(0, 65536));
  v("block_rows", c.block_rows, "2d: rows of a block", range(1, 4096));
  v("block_columns", c.block_columns, "2d: columns of a block", range(1, 4096));
  v("flange_rows", c.flange_rows, "2d: rows above a block, and below it when not causal",
    range(0, 4096));
  v("flange_columns", c.flange_columns, "2d: columns on each side of a block", range(0, 4096));
  v("columns", c.columns,
    "2d: tokens in a row of the grid; 0 = those of the image where the tokens are one, else the "
    "root of the model's max_length",
    at_least(0));
  v("order", c.order, "2d: tokens come row by row, or block by block, row by row within a block");
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
}

// Where blocks are filled one by one, they fill whole rows.
int64_t columns_of(const Config& c, const Site& site) {
  const int64_t columns = grid_columns(c.columns, site.shape);
  const int64_t more = (c.block_columns - columns % c.block_columns) % c.block_columns;
  return c.order == Order::blocks ? columns + more : columns;
}

class Image : public AttentionImpl {
 public:
  Image(const Site& site, const Config& config)
      : config_(config),
        blocks_{.columns = columns_of(config, site),
                .height = config.block_rows,
                .width = config.block_columns,
                .flange_rows = config.flange_rows,
                .flange_columns = config.flange_columns,
                .by_blocks = config.order == Order::blocks},
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {
    TORCH_CHECK(config.form == Form::line || blocks_.columns > 0,
                "image: needs columns, or the model's max_length");
  }

  Tensor attend(const Heads& heads, Context& context) override {
    const auto given = scaled(heads);
    if (config_.form == Form::grid) return blocks_.attend(given, weighing(), context);
    const int64_t n = heads.q.size(2), w = std::min(config_.block, n), others = (n - 1) / w * w;
    const int64_t side = std::min(config_.memory, others);
    const bool causal = context.mask.causal;
    if (context.maps) return in_tiles(given, w, side, context);
    return read_blocks(
               given.q, given.k, given.v, blocks_around(n, w, side, given.q.device()),
               {.ahead = causal ? 0 : Visibility::kAll, .keep = kept_keys(context.mask.keep)},
               weighing(), context)
        .mean;
  }

  void open(State& state, const Heads& empty, int64_t capacity, Context&) override {
    if (config_.form == Form::grid) return blocks_.open(state, empty, capacity);
    open_ring(state, empty,
              std::max<int64_t>(std::min(config_.block + config_.memory, capacity), 1));
  }

  Tensor grow(const Heads& heads, State& state, Context& context) override {
    const auto given = scaled(heads);
    if (config_.form == Form::grid) return blocks_.grow(given, state, weighing(), context);
    const auto near = [this](const Tensor& i, const Tensor& j) {
      return j >= i.floor_divide(config_.block) * config_.block - config_.memory;
    };
    return grow_ring(given, state, near, weighing(), context);
  }

 private:
  // The same with all weights, for those who look at them.
  Tensor in_tiles(const Heads& heads, int64_t tile, int64_t side, Context& context) const {
    const int64_t n = heads.q.size(2);
    const bool causal = context.mask.causal;
    const Band band = {.tokens = n, .tile = tile, .back = side, .ahead = causal ? 0 : side};
    const auto visible =
        band.visible(within(n, causal ? 0 : n), context.mask.keep, heads.q.device());
    return band.together(softmax_read(band.queries(heads.q), band.keys(heads.k), band.keys(heads.v),
                                      visible, weighing(), context));
  }

  Heads scaled(Heads heads) const {
    heads.q = heads.q * scale_;
    return heads;
  }
  Weighing weighing() const { return {config_.dropout, is_training(), path_}; }

  Config config_;
  GridBlocks blocks_;
  std::string path_;
  double scale_;
};

void check(const Config& c, const Site& site) {
  if (c.form == Form::line) return;
  check_grid(c.columns, site.shape);
  if (c.order == Order::raster) return;
  const auto& grid = site.shape.grid;
  const int64_t columns = c.columns > 0 || grid.empty() ? c.columns : grid.back();
  require_option(columns % c.block_columns == 0, "block_columns",
                 c10::str("is ", c.block_columns, ", which does not divide ", columns, " columns"),
                 "tokens that come block by block need whole blocks: take a divisor");
  if (grid.empty()) return;
  require_option(grid.front() % c.block_rows == 0, "block_rows",
                 c10::str("is ", c.block_rows, ", which does not divide ", grid.front(), " rows"),
                 "tokens that come block by block need whole blocks: take a divisor");
}

Promises promises(const Config&) {
  return {.future = Future::exact, .decode = true, .positional = true};
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<Image>(site, c);
}

}  // namespace

Mechanism image_mechanism() {
  return over_heads<Config>(
      {.name = "image",
       .family = "window",
       .paper = "arXiv:1802.05751",
       .cost = "O(N W D)",
       .summary = "Tokens attend within their block of a sequence or an image and what is around "
                  "it.",
       .exact = "one block with all tokens: softmax",
       .variants = {{"small", "{block: 6, memory: 4}"},
                    {"2d", "{form: 2d}"},
                    {"2d_small",
                     "{form: 2d, block_rows: 2, block_columns: 3, flange_rows: 1, "
                     "flange_columns: 2}"},
                    {"2d_blocks",
                     "{form: 2d, block_rows: 2, block_columns: 3, flange_rows: 3, "
                     "flange_columns: 1, order: blocks}"}}},
      promises, make, check);
}

}  // namespace longbow
