#pragma once
#include <array>
#include <string>
#include <string_view>

#include "longbow/models/encoder/layer_attention.h"
#include "longbow/models/encoder/pixels.h"

namespace longbow {

// rotary: queries and keys are turned in every layer. The others are added to the embeddings; axial
// ones are those of the row and of the column, where the sequence is laid out in rows.
enum class Positions { none, sinusoidal, learned, rotary, axial };
constexpr std::array<std::string_view, 5> names_of(Positions) {
  return {"none", "sinusoidal", "learned", "rotary", "axial"};
}
// What a token is to the model: a row of a table, or the grey value that its id stands for.
enum class Input { tokens, pixels };
constexpr std::array<std::string_view, 2> names_of(Input) {
  return {"tokens", "pixels"};
}
enum class AxialJoin { sum, concatenate };
constexpr std::array<std::string_view, 2> names_of(AxialJoin) {
  return {"sum", "concatenate"};
}
enum class Init { bert, xavier, lra, paper };
constexpr std::array<std::string_view, 4> names_of(Init) {
  return {"bert", "xavier", "lra", "paper"};
}

// The two tables of axial positions: token t stands in row t div columns.
struct AxialConfig {
  int64_t rows = 0, columns = 0, row_width = 0;
  AxialJoin join = AxialJoin::sum;

  AxialConfig filled(int64_t length, int64_t width) const;  // the zeros resolved
};
template <class V>
void fields(V& v, AxialConfig& c) {
  v("rows", c.rows,
    "rows that the sequence is laid out in, one after the other; 0 = as many as max_length needs",
    range(0, 1 << 30));
  v("columns", c.columns,
    "tokens of a row; 0 = the width of an image, otherwise as many as max_length needs, near a "
    "square",
    range(0, 1 << 30));
  v("join", c.join, "add the positions of row and column, or lay them side by side");
  v("row_width", c.row_width, "channels of the row where they lie side by side; 0 = half",
    range(0, 65536));
}

struct EncoderConfig {
  int64_t width = 64, heads = 2, head_width = 0, layers = 2, max_length = 0;
  int64_t front = 0;  // rows that a head puts before the tokens; not an option
  bool causal = false, bias = true;
  Input input = Input::tokens;
  PixelsConfig pixels = {};
  Positions positions = Positions::learned;
  Rotary rotary = {};
  AxialConfig axial = {};
  int64_t segments = 0;
  Init init = Init::bert;
  int64_t embedding_width = 0;
  bool embedding_norm = false, embedding_scale = false, zero_padding = false;
  double embedding_dropout = 0;
  BlockConfig block = {};
  Node attention = Node::string("softmax");

  int64_t words() const { return embedding_width > 0 ? embedding_width : width; }  // their width
};
template <class V>
void fields(V& v, EncoderConfig& c) {
  v("width", c.width, "model width C", range(1, 65536));
  v("heads", c.heads, "attention heads H", range(1, 1024));
  v("head_width", c.head_width, "head width D; 0 = width / heads", range(0, 65536));
  v("layers", c.layers, "blocks in the stack", range(1, 1024));
  v("max_length", c.max_length,
    "longest sequence in tokens; 0 = the longest of the data, rounded up to train.bucket",
    range(0, 1 << 30));
  v("causal", c.causal, "each token attends only to itself and earlier tokens");
  v("bias", c.bias, "biases on the attention projections");
  v("input", c.input,
    "an embedding of each token; of images also a linear projection of the grey values");
  v("pixels", c.pixels, "how grey values are normalised");
  v("positions", c.positions,
    "added to the embeddings; rotary positions rotate queries and keys in every layer instead");
  v("rotary", c.rotary, "rotary positions");
  v("axial", c.axial, "axial positions");
  v("segments", c.segments, "kinds of segments whose embeddings are added; 0 = none are read",
    at_least(0));
  v("init", c.init,
    "initial values: normal with deviation 0.02; Xavier uniform; the same with word embeddings of "
    "deviation 1; as in the mechanism's paper, otherwise Xavier uniform");
  v("embedding_width", c.embedding_width,
    "width of word, position and segment embeddings, projected to the model width; 0 = the model "
    "width itself",
    range(0, 65536));
  v("embedding_norm", c.embedding_norm, "a LayerNorm over the sum of the embeddings, as in BERT");
  v("embedding_scale", c.embedding_scale, "multiply word embeddings by the root of their width");
  v("zero_padding", c.zero_padding, "the embedding of token 0 is zero and is not trained");
  v("embedding_dropout", c.embedding_dropout, "dropout rate on the embeddings", range(0, 0.99));
  v("block", c.block, "residuals and feed-forward");
  v("attention", c.attention, "the mechanism: a name, a map with its options, or a list by layers");
}

// Where an encoder's modules are built.
Site site_of(const EncoderConfig& config, uint64_t seed);

// UserError when the encoder reads pixels; `who` does not.
void require_tokens(const EncoderConfig& config, const Node& tree, const std::string& who);

// UserError with file and line when a layer's mechanism does not exist, has wrong options, or
// cannot be causal or rotated. What depends on a max_length of 0 is not checked.
void check_attention(const EncoderConfig& config);
// That, and whether sizes and the options of the blocks fit each other; `tree` is where the config
// was read from, and `crosses` whether the blocks also read a memory.
void check_encoder(const EncoderConfig& config, const Node& tree, bool crosses = false);

}  // namespace longbow
