#include "longbow/models/encoder/layer_attention.h"

#include <algorithm>
#include <map>

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

std::vector<Node> one_for_each(const Node& list, int64_t layers) {
  if (static_cast<int64_t>(list.items.size()) != layers)
    throw UserError(list.place,
                    "the list names " + std::to_string(list.items.size()) +
                        " mechanisms, but the model has " + std::to_string(layers) + " layers",
                    "give one for each layer, or say which with layers: 0-3");
  return list.items;
}

std::vector<Node> from_list(const Node& list, int64_t layers) {
  const auto says_where = [](const Node& item) { return item.find("layers") != nullptr; };
  if (std::none_of(list.items.begin(), list.items.end(), says_where))
    return one_for_each(list, layers);
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

// A mixer by itself may be built for fewer tokens than its model reads; a layer may not.
void check_reach(const Node& options, int64_t length) {
  const auto* longest = options.find("max_length");
  if (!longest) return;
  const auto tokens = as_integer(*longest, "max_length");
  if (tokens > 0 && tokens < length)
    throw UserError(longest->place,
                    mechanism_of(options).name + ".max_length is " + std::to_string(tokens) +
                        ", but the layer reads " + std::to_string(length) + " tokens",
                    "raise it, or leave it out");
}

// Compares the options that layers of a mechanism must have in common with those of the first such
// layer.
class CommonOptions {
 public:
  void check(const Node& options, const Site& site) {
    const auto& mechanism = mechanism_of(options);
    if (!mechanism.common) return;
    const auto own = options_of(options);
    const auto values = mechanism.common(site, own);
    if (values.empty()) return;
    const auto entry = first_.emplace(mechanism.name, Layer{site.layer, values}).first;
    check_options(own, mechanism.name, [&] { compare(values, entry->second); });
  }

 private:
  struct Layer {
    int64_t number;
    OptionValues values;
  };
  static void compare(const OptionValues& values, const Layer& first) {
    for (const auto& [key, value] : values) {
      const auto& other = first.values.at(key);
      require_option(value.empty() || other.empty() || value == other, key,
                     "is " + value + ", but " + other + " in layer " +
                         std::to_string(first.number) + ", and both layers use the same tensors",
                     "write the same value for both");
    }
  }
  std::map<std::string, Layer> first_;  // by mechanism
};

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

void check_layer_options(const Node& attention, const Site& site) {
  auto here = site;
  here.layer = 0;
  CommonOptions common;
  for (const auto& options : attention_per_layer(attention, site.layers)) {
    check_options(options, here);
    check_reach(options, site.source_length());
    common.check(options, here);
    ++here.layer;
  }
}

void check_decodes(const Node& attention, int64_t layers) {
  constexpr auto decodes = [](const Promises& p) {
    return p.future != Future::refused && p.decode;
  };
  for (const auto& options : attention_per_layer(attention, layers)) {
    const auto& mechanism = mechanism_of(options);
    if (!decodes(mechanism.promises(options_of(options))))
      throw UserError(options.place, mechanism.name + " does not decode",
                      "mechanisms that do: " + mechanisms_that(decodes));
  }
}

}  // namespace longbow
