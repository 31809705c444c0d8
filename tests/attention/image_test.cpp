#include <ATen/ATen.h>

#include <cmath>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 6;
const Site kSite = {.shape = {.width = kWidth, .heads = 2, .max_length = 64}, .init = "xavier"};

int64_t integer(const Node& options, const char* key) {
  return as_integer(*options.find(key), key);
}

struct Cell {
  int64_t row, column;
};
Cell cell_of(const Node& options, const Site& site, int64_t t) {
  const int64_t h = integer(options, "block_rows"), w = integer(options, "block_columns");
  int64_t columns = integer(options, "columns");
  if (columns == 0)
    columns =
        static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(site.shape.max_length))));
  if (as_string(*options.find("order"), "order") == "raster") return {t / columns, t % columns};
  const int64_t across = (columns + w - 1) / w, block = t / (h * w), inside = t % (h * w);
  return {block / across * h + inside / w, block % across * w + inside % w};
}

// [N, N]: whether j is in the block of i or around it, pair by pair.
Tensor near(const Node& options, const Site& site, int64_t length) {
  const bool line = as_string(*options.find("form"), "form") == "1d";
  auto visible = at::zeros({length, length}, at::kDouble);
  const auto within = [](int64_t i, int64_t j, int64_t size, int64_t around) {
    const int64_t first = i / size * size;
    return j >= first - around && j < first + size + around;
  };
  for (int64_t i = 0; i < length; ++i)
    for (int64_t j = 0; j < length; ++j) {
      if (line) {
        if (within(i, j, integer(options, "block"), integer(options, "memory"))) visible[i][j] = 1;
        continue;
      }
      const auto a = cell_of(options, site, i), b = cell_of(options, site, j);
      if (within(a.row, b.row, integer(options, "block_rows"), integer(options, "flange_rows")) &&
          within(a.column, b.column, integer(options, "block_columns"),
                 integer(options, "flange_columns")))
        visible[i][j] = 1;
    }
  return visible;
}

const bool registered =
    oracle::add("image", [](const torch::nn::Module& mixer, const Node& options, const Site& site,
                            const Tensor& x, const Context& context) {
      return oracle::multi_head(
          mixer, site, x, context,
          [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
            return oracle::softmax(q, k, v, visible * near(options, site, x.size(1)));
          });
    });

Mixer made(const std::string& name, const std::string& options, const Site& site = kSite) {
  auto mixer = make_mixer(name, site, options);
  mixer->to(at::kDouble);
  return mixer;
}

TEST(Image, OneBlockIsSoftmax) {
  const auto x = random_normal({2, 30, kWidth}, 1);
  for (const bool causal : {false, true})
    for (const auto* options :
         {"{block: 30, memory: 0}", "{form: 2d, columns: 6, block_rows: 5, block_columns: 6}",
          "{form: 2d, columns: 6, block_rows: 5, block_columns: 6, order: blocks}",
          "{form: 2d, columns: 6, block_rows: 1, block_columns: 2, flange_rows: 4, "
          "flange_columns: 4}"}) {
      Context context = {.mask = {.causal = causal}};
      EXPECT_NEAR_TENSOR((*made("image", options))(x, context), (*made("softmax", ""))(x, context),
                         tolerance(at::kDouble));
    }
}

// Which inputs move output i of a grid of 4 x 6.
std::vector<int64_t> read_by(const std::string& options, int64_t i, bool causal) {
  const auto x = random_normal({1, 24, kWidth}, 3).requires_grad_();
  Context context = {.mask = {.causal = causal}};
  (*made("image", options))(x, context)[0][i].sum().backward();
  std::vector<int64_t> tokens;
  for (int64_t j = 0; j < 24; ++j)
    if (x.grad()[0][j].abs().max().item<double>() > 0) tokens.push_back(j);
  return tokens;
}

TEST(Image, ABlockOfASequenceReadsWhatIsBesideIt) {
  const std::string options = "{block: 4, memory: 2}";
  EXPECT_EQ(read_by(options, 9, false), (std::vector<int64_t>{6, 7, 8, 9, 10, 11, 12, 13}));
  EXPECT_EQ(read_by(options, 9, true), (std::vector<int64_t>{6, 7, 8, 9}));
}

TEST(Image, ABlockThatIsARowReadsTheRowAboveAndItsPrefix) {
  const std::string options =
      "{form: 2d, columns: 6, block_rows: 1, block_columns: 6, flange_rows: 1, flange_columns: 0}";
  EXPECT_EQ(read_by(options, 14, true), (std::vector<int64_t>{6, 7, 8, 9, 10, 11, 12, 13, 14}));
}

TEST(Image, ABlockOfAGridReadsTheFlange) {
  // Row 1, column 3 is in the block of rows 0, 1 and columns 2, 3.
  EXPECT_EQ(read_by("{form: 2d, columns: 6, block_rows: 2, block_columns: 2, flange_rows: 1, "
                    "flange_columns: 1}",
                    9, false),
            (std::vector<int64_t>{1, 2, 3, 4, 7, 8, 9, 10, 13, 14, 15, 16}));
}

// Blocks of 2 x 2, three across: tokens 0..3 are the first block, 12..15 the first of the second
// row. Token 17 is the second cell of the block in the middle of the second row. It reads from the
// row above 3, 6, 7 and 10 (left, two above, right), from the left 13 and 15, and 16 before it.
TEST(Image, BlockByBlockTheStripsAboveAndToTheLeftAreSeen) {
  EXPECT_EQ(read_by("{form: 2d, columns: 6, block_rows: 2, block_columns: 2, flange_rows: 1, "
                    "flange_columns: 1, order: blocks}",
                    17, true),
            (std::vector<int64_t>{3, 6, 7, 10, 13, 15, 16, 17}));
}

TEST(Image, TheRingHoldsWhatIsReadWhateverTheCapacity) {
  const auto slots = [](const std::string& options) {
    State state;
    Context context;
    made("image", options)->start(state, 1, 1000000, context);
    return state.lane.at("keys").size(2) - 1;
  };
  EXPECT_EQ(slots("{block: 4, memory: 2}"), 6);
  // Blocks and flange, and one row more for a piece.
  EXPECT_EQ(slots("{form: 2d, columns: 6, block_rows: 2, flange_rows: 3}"), (2 + 3 + 1) * 6);
  EXPECT_EQ(slots("{form: 2d, columns: 6, block_rows: 2, block_columns: 3, flange_rows: 3, order: "
                  "blocks}"),
            (2 + 4 + 1) * 6);
}

TEST(Image, RefusesWhatItCannotDo) {
  auto site = kSite;
  site.shape.grid = {6, 8};
  const std::string hint = "; tokens that come block by block need whole blocks: take a divisor";
  EXPECT_EQ(
      error_of([&] { (void)made("image", "{form: 2d, order: blocks, block_columns: 3}", site); }),
      "image options:1: image.block_columns is 3, which does not divide 8 columns" + hint);
  EXPECT_EQ(error_of([&] {
              (void)made("image", "{form: 2d, order: blocks, block_columns: 4, block_rows: 4}",
                         site);
            }),
            "image options:1: image.block_rows is 4, which does not divide 6 rows" + hint);
  site.shape.grid = {2, 3, 4};
  EXPECT_EQ(error_of([&] { (void)made("image", "{form: 2d}", site); }),
            "image options:1: image.columns is not given, and the tokens are an image with 3 "
            "sides; give the tokens in a row");
  site.shape.grid = {};
  site.shape.max_length = 0;
  EXPECT_EQ(error_of([&] {
              (void)made("image", "{form: 2d}", site);
            }).find("image: needs columns, or the model's max_length"),
            0u);
}

}  // namespace
}  // namespace longbow
