#include "longbow/models/bert/hugging_face.h"

#include <c10/util/StringUtil.h>

namespace longbow {
namespace {

// The part of their config that decides what is computed; the rest travels along.
struct TheirConfig {
  std::string hidden_act = "gelu";
  double attention_probs_dropout_prob = 0.1, hidden_dropout_prob = 0.1, layer_norm_eps = 1e-12;
  int64_t hidden_size = 768, intermediate_size = 3072, max_position_embeddings = 512,
          num_attention_heads = 12, num_hidden_layers = 12, type_vocab_size = 2, vocab_size = 30522;
};
template <class V>
void fields(V& v, TheirConfig& c) {
  v("hidden_act", c.hidden_act, "activation of the feed-forward layer");
  v("attention_probs_dropout_prob", c.attention_probs_dropout_prob, "rate on attention weights",
    range(0, 0.99));
  v("hidden_dropout_prob", c.hidden_dropout_prob, "rate on sub-layers", range(0, 0.99));
  v("layer_norm_eps", c.layer_norm_eps, "inside the roots of the norms", range(1e-15, 1));
  v("hidden_size", c.hidden_size, "width", range(1, 65536));
  v("intermediate_size", c.intermediate_size, "width of the feed-forward layer", range(1, 1 << 20));
  v("max_position_embeddings", c.max_position_embeddings, "longest sequence", range(1, 1 << 24));
  v("num_attention_heads", c.num_attention_heads, "heads", range(1, 1024));
  v("num_hidden_layers", c.num_hidden_layers, "layers", range(1, 1024));
  v("type_vocab_size", c.type_vocab_size, "types of tokens", range(1, 65536));
  v("vocab_size", c.vocab_size, "vocabulary", range(1, 1 << 30));
}

const std::pair<const char*, Activation> kActivations[] = {
    {"gelu", Activation::gelu},
    {"gelu_new", Activation::gelu_tanh},
    {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu_fast", Activation::gelu_tanh},
    {"relu", Activation::relu},
    {"silu", Activation::silu},
    {"swish", Activation::silu}};

// Keys that change what BERT computes must have the value that is built here.
void expect_value(const Node& tree, const std::string& key, const std::string& wanted) {
  const auto* found = tree.find(key);
  if (found && !found->is_null() && found->text != wanted)
    throw UserError(found->place, key + " is " + quote(found->text),
                    "only " + quote(wanted) + " can be imported");
}

Activation activation_of(const Node& tree, const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [theirs, ours] : kActivations) {
    if (name == theirs) return ours;
    known.emplace_back(theirs);
  }
  throw UserError(tree.find("hidden_act")->place, "unknown hidden_act " + quote(name),
                  suggest(name, known));
}

}  // namespace

void check_softmax(const BertConfig& config, const Place& place) {
  const auto layers = attention_per_layer(config.encoder.attention, config.encoder.layers);
  for (const auto& attention : layers) {
    if (mechanism_of(attention).name != "softmax")
      throw UserError(place, "a layer is " + mechanism_of(attention).name +
                                 ", but Hugging Face's BERT has softmax attention only");
    const auto* masked = attention.find("head_mask");
    if (!(attention == layers.front()) || (masked && !masked->items.empty()))
      throw UserError(place,
                      "Hugging Face's BERT has the same attention in every layer and no head_mask");
  }
}

BertConfig bert_from_hugging_face(const Node& tree) {
  const auto* type = tree.find("model_type");
  if (!type) throw UserError(tree.place, "model_type is missing", "a BERT says \"bert\"");
  expect_value(tree, "model_type", "bert");
  expect_value(tree, "position_embedding_type", "absolute");
  expect_value(tree, "is_decoder", "false");
  expect_value(tree, "add_cross_attention", "false");
  Node known = Node::map();
  known.place = tree.place;
  for (const auto& doc : describe<TheirConfig>())
    if (const auto* value = tree.find(doc.name)) known[doc.name] = *value;
  const auto theirs = read<TheirConfig>(known);
  BertConfig config;
  auto& encoder = config.encoder;
  encoder.width = theirs.hidden_size;
  encoder.heads = theirs.num_attention_heads;
  encoder.layers = theirs.num_hidden_layers;
  encoder.max_length = theirs.max_position_embeddings;
  encoder.embedding_dropout = encoder.block.dropout = theirs.hidden_dropout_prob;
  encoder.block.norm_epsilon = theirs.layer_norm_eps;
  encoder.block.feed_forward.width = theirs.intermediate_size;
  encoder.block.feed_forward.activation = activation_of(tree, theirs.hidden_act);
  encoder.attention = Node::map({{"name", Node::string("softmax")},
                                 {"dropout", Node::number(theirs.attention_probs_dropout_prob)}});
  config.vocabulary = theirs.vocab_size;
  config.token_types = theirs.type_vocab_size;
  if (encoder.width % encoder.heads != 0)
    throw UserError(tree.place, c10::str("hidden_size ", encoder.width, " is not a multiple of ",
                                         encoder.heads, " heads"));
  return config;
}

Node bert_to_hugging_face(const BertConfig& config, const Node& source) {
  const auto& encoder = config.encoder;
  TheirConfig theirs = {.layer_norm_eps = encoder.block.norm_epsilon,
                        .hidden_size = encoder.width,
                        .intermediate_size = encoder.block.feed_forward.width,
                        .max_position_embeddings = encoder.max_length,
                        .num_attention_heads = encoder.heads,
                        .num_hidden_layers = encoder.layers,
                        .type_vocab_size = config.token_types,
                        .vocab_size = config.vocabulary};
  theirs.hidden_dropout_prob = encoder.block.dropout;
  const auto attention = attention_per_layer(encoder.attention, encoder.layers).front();
  const auto* dropout = attention.find("dropout");
  theirs.attention_probs_dropout_prob = dropout ? as_number(*dropout, "dropout") : 0;
  for (const auto& [name, activation] : kActivations)
    if (activation == encoder.block.feed_forward.activation) {
      theirs.hidden_act = name;
      break;
    }
  // Several of their names mean the same activation.
  if (const auto* said = source.find("hidden_act"))
    if (activation_of(source, said->text) == encoder.block.feed_forward.activation)
      theirs.hidden_act = said->text;
  auto tree = merged(source.is_map() ? source : Node::map(), written(theirs));
  tree["model_type"] = Node::string("bert");
  return tree;
}

std::vector<WeightName> bert_weight_names(const BertConfig& config) {
  const auto width = config.encoder.width, inner = config.encoder.block.feed_forward.width;
  std::vector<WeightName> names = {
      {"embeddings.word_embeddings.weight", "encoder.embedding.words", {config.vocabulary, width}},
      {"embeddings.position_embeddings.weight",
       "encoder.embedding.positions",
       {config.encoder.max_length, width}},
      {"embeddings.token_type_embeddings.weight",
       "encoder.embedding.segments",
       {config.token_types, width}}};
  const auto add = [&](const std::string& theirs, const std::string& ours,
                       const std::vector<int64_t>& shape, int64_t layer) {
    names.push_back({theirs + ".weight", ours + ".weight", shape, layer});
    names.push_back({theirs + ".bias", ours + ".bias", {shape.front()}, layer});
  };
  add("embeddings.LayerNorm", "encoder.embedding.norm", {width}, -1);
  struct LayerPart {
    const char *theirs, *ours;
    std::vector<int64_t> shape;
  };
  const LayerPart parts[] = {{"attention.self.query", "mixer.query", {width, width}},
                             {"attention.self.key", "mixer.key", {width, width}},
                             {"attention.self.value", "mixer.value", {width, width}},
                             {"attention.output.dense", "mixer.output", {width, width}},
                             {"attention.output.LayerNorm", "mixer_norm", {width}},
                             {"intermediate.dense", "feed_forward.up", {inner, width}},
                             {"output.dense", "feed_forward.down", {width, inner}},
                             {"output.LayerNorm", "feed_forward_norm", {width}}};
  for (int64_t layer = 0; layer < config.encoder.layers; ++layer)
    for (const auto& [theirs, ours, shape] : parts)
      add(c10::str("encoder.layer.", layer, ".", theirs),
          c10::str("encoder.layers.", layer, ".", ours), shape, layer);
  if (config.pooler) add("pooler.dense", "pooler.dense", {width, width}, -1);
  return names;
}

}  // namespace longbow
