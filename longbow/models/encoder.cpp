#include "longbow/models/encoder.h"

#include <ATen/ATen.h>

#include "longbow/nn/positions.h"

namespace longbow {
namespace {

// "3" or "0-9", inclusive.
std::pair<int64_t, int64_t> parse_layers(const Node& node, int64_t layers) {
  const auto text = as_string(node, "layers");
  const auto dash = text.find('-');
  const auto bound = [&](const std::string& part) {
    Node value = Node::scalar(part);
    value.place = node.place;
    const auto layer = as_integer(value, "layers");
    if (layer < 0 || layer >= layers)
      throw UserError(node.place, "layer " + part + " does not exist",
                      "the model has layers 0-" + std::to_string(layers - 1));
    return layer;
  };
  if (dash == std::string::npos) return {bound(text), bound(text)};
  const auto first = bound(text.substr(0, dash)), last = bound(text.substr(dash + 1));
  if (first > last)
    throw UserError(node.place, "layers " + text + " run backwards", "write the smaller one first");
  return {first, last};
}

Node without(const Node& map, const std::string& key) {
  Node rest = map;
  std::erase_if(rest.entries, [&](const auto& entry) { return entry.first == key; });
  return rest;
}

std::vector<Node> from_list(const Node& list, int64_t layers) {
  std::vector<Node> result(static_cast<size_t>(layers));
  for (const auto& item : list.items) {
    const auto* where = item.find("layers");
    if (!where)
      throw UserError(item.place, "a mechanism in a list needs its layers", "write layers: 0-3");
    const auto [first, last] = parse_layers(*where, layers);
    for (int64_t layer = first; layer <= last; ++layer) {
      auto& slot = result[static_cast<size_t>(layer)];
      if (!slot.is_null())
        throw UserError(where->place, "layer " + std::to_string(layer) + " is given twice",
                        "each layer has one mechanism");
      slot = without(item, "layers");
    }
  }
  for (size_t layer = 0; layer < result.size(); ++layer)
    if (result[layer].is_null())
      throw UserError(list.place, "layer " + std::to_string(layer) + " has no mechanism",
                      "the model has layers 0-" + std::to_string(layers - 1));
  return result;
}

}  // namespace

std::vector<Node> attention_per_layer(const Node& attention, int64_t layers) {
  if (attention.is_list()) return from_list(attention, layers);
  std::vector<Node> result(static_cast<size_t>(layers), attention);
  const auto* lists = attention.find("per_layer");
  if (!lists) return result;
  if (!lists->is_map())
    throw UserError(lists->place, "per_layer is not a map", "write per_layer: {window: [32, 64]}");
  for (auto& options : result) options = without(options, "per_layer");
  for (const auto& [key, values] : lists->entries) {
    if (!values.is_list() || static_cast<int64_t>(values.items.size()) != layers)
      throw UserError(
          values.place,
          "per_layer." + key + " is not a list of " + std::to_string(layers) + " values",
          "give one for each layer");
    for (size_t layer = 0; layer < result.size(); ++layer) result[layer][key] = values.items[layer];
  }
  return result;
}

Node resolved_attention(const Node& attention) {
  if (attention.is_list()) {
    Node list = Node::list();
    for (const auto& item : attention.items) {
      list.items.push_back(resolved_attention(without(item, "layers")));
      if (const auto* layers = item.find("layers")) list.items.back()["layers"] = *layers;
    }
    return list;
  }
  const auto& mechanism = mechanism_of(attention);
  Node result = Node::map({{"name", Node::string(mechanism.name)}});
  const auto options = mechanism.resolve(options_of(without(attention, "per_layer")));
  result.entries.insert(result.entries.end(), options.entries.begin(), options.entries.end());
  if (const auto* lists = attention.find("per_layer")) result["per_layer"] = *lists;
  return result;
}

void check_attention(const EncoderConfig& config) {
  for (const auto& options : attention_per_layer(config.attention, config.layers)) {
    const auto& mechanism = mechanism_of(options);
    const auto promises = mechanism.promises(options_of(options));
    if (config.causal && promises.future == Future::refused)
      throw UserError(options.place, mechanism.name + " is not causal",
                      "mechanisms that are: " + mechanisms_that([](const Promises& p) {
                        return p.future != Future::refused;
                      }));
    if (!config.causal && !promises.bidirectional)
      throw UserError(options.place, mechanism.name + " is causal only", "set causal: true");
  }
}

void check_encoder(const EncoderConfig& config, const Node& tree) {
  if (config.head_width == 0 && config.width % config.heads != 0) {
    const auto* heads = tree.find("heads");
    throw UserError(heads ? heads->place : tree.place,
                    "model.width " + std::to_string(config.width) +
                        " is not a multiple of model.heads " + std::to_string(config.heads),
                    "change one of them, or set model.head_width");
  }
  check_attention(config);
}

Encoder::Encoder(const EncoderConfig& config, int64_t vocabulary, uint64_t seed) : config_(config) {
  check_attention(config);
  TORCH_CHECK(config.head_width > 0 || config.width % config.heads == 0, "encoder: width ",
              config.width, " is not a multiple of ", config.heads, " heads");
  Site site = {.shape = {.width = config.width,
                         .heads = config.heads,
                         .head_width = config.head_width,
                         .max_length = config.max_length},
               .init = std::string(names_of(config.init)[static_cast<size_t>(config.init)]),
               .bias = config.bias,
               .layers = config.layers,
               .seed = seed};
  site.shared = shared_ = register_module("shared", std::make_shared<Shared>());
  words_ = parameter("words", initial_normal(site, "words", {vocabulary, config.width},
                                             config.init == Init::lra ? 1.0 : 0.02));
  if (config.positions == Positions::learned)
    positions_ = parameter(
        "positions", initial_normal(site, "positions", {config.max_length, config.width}, 0.02));
  if (config.positions == Positions::sinusoidal)
    positions_ = register_buffer("positions", sinusoids(config.max_length, config.width));
  const auto options = attention_per_layer(config.attention, config.layers);
  std::vector<Block> blocks;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    auto here = site.at("layers." + std::to_string(layer));
    here.layer = layer;
    blocks.push_back(make_block(options[static_cast<size_t>(layer)], here, config.block));
  }
  layers_ = register_module("layers", std::make_shared<Stack>(std::move(blocks), shared_));
  if (config.block.residual == Residual::pre_norm || config.block.residual == Residual::reversible)
    norm_ = register_module("norm", std::make_shared<LayerNorm>(config.width));
}

Tensor Encoder::embedded(const Tensor& tokens, Context& context) {
  TORCH_CHECK(config_.max_length == 0 || tokens.size(1) <= config_.max_length,
              "encoder: ", tokens.size(1), " tokens, but max_length is ", config_.max_length);
  auto x = at::embedding(words_, tokens);
  if (positions_.defined()) {
    const auto places = positions_of(x, context);
    x = x + at::embedding(positions_, places).to(x.scalar_type());
  }
  return dropout(x, config_.embedding_dropout, is_training(), context, "embedding.dropout");
}

Tensor Encoder::operator()(const Tensor& tokens, Context& context) {
  context.mask.causal = config_.causal;
  const auto x = (*layers_)(embedded(tokens, context), context);
  return norm_ ? (*norm_)(x) : x;
}

// The state of the stack, with the number of real tokens so far, from which positions go on.
void Encoder::start(State& state, int64_t lanes, int64_t capacity, Context& context) {
  TORCH_CHECK(config_.causal, "encoder: only a causal one can be extended");
  TORCH_CHECK(config_.max_length == 0 || capacity <= config_.max_length, "encoder: a capacity of ",
              capacity, " tokens, but max_length is ", config_.max_length);
  layers_->start(state, lanes, capacity, context);
  state.seen = at::zeros({lanes}, words_.options().dtype(at::kLong));
}

Tensor Encoder::extend(const Tensor& tokens, State& state, Context& context) {
  TORCH_CHECK(state.seen.defined(), "encoder: extend before start");
  const auto keep = context.mask.keep;
  Context placed = context;
  placed.positions = state.seen.unsqueeze(1) + positions_of(tokens, {.mask = {.keep = keep}});
  const auto x = layers_->extend(embedded(tokens, placed), state, context);
  state.seen =
      state.seen + (keep.defined() ? keep.sum(1) : at::full_like(state.seen, tokens.size(1)));
  return norm_ ? (*norm_)(x) : x;
}

}  // namespace longbow
