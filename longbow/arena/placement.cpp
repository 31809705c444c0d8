#include "longbow/arena/placement.h"

#include <algorithm>

#include "longbow/models/encoder/encoder_config.h"
#include "longbow/tasks/task.h"

namespace longbow::arena {
namespace {

// What the mechanism promises in every layer of a part of the model; its options are read strictly.
bool keeps(const Node& attention, const Node& part, bool (*promise)(const Promises&)) {
  const auto* layers = part.find("layers");
  const auto each = attention_per_layer(
      attention, layers ? as_integer(*layers, "layers") : EncoderConfig().layers);
  return std::all_of(each.begin(), each.end(), [&](const Node& options) {
    return promise(mechanism_of(options).promises(options_of(options)));
  });
}

bool reads_both_ways(const Promises& p) {
  return p.bidirectional;
}
bool writes(const Promises& p) {
  return p.future != Future::refused && p.decode;
}
bool reads_memory(const Promises& p) {
  return p.cross && p.decode;
}

Placement in_encoder_decoder(const Node& attention, const Node& model) {
  struct Place {
    const char *site, *part, *key;
    bool (*promise)(const Promises&);
  };
  constexpr Place kPlaces[] = {{"encoder", "encoder", "attention", reads_both_ways},
                               {"decoder", "decoder", "attention", writes},
                               {"cross", "decoder", "cross_attention", reads_memory}};
  Placement result = {model, {}};
  for (const auto& [site, name, key, promise] : kPlaces) {
    auto& part = result.model[name];
    if (!part.is_map()) part = Node::map();
    if (!keeps(attention, part, promise)) continue;
    part[key] = attention;
    result.sites.emplace_back(site);
  }
  if (result.sites.empty())
    throw UserError(attention.place,
                    mechanism_of(attention).name + " has no place in an encoder-decoder");
  return result;
}

}  // namespace

void check_readable(const Node& attention, const Node& model, const std::string& objective) {
  const auto any = [](const Promises&) { return true; };
  if (objective != "translation") {
    keeps(attention, model, any);
    return;
  }
  const auto whole = find_objective(objective).complete(model);
  for (const auto* name : {"encoder", "decoder"}) {
    const auto* part = whole.find(name);
    keeps(attention, part ? *part : Node::map(), any);
  }
}

Placement placed(const Node& attention, const Node& model, const std::string& objective) {
  if (objective == "translation")
    return in_encoder_decoder(attention, find_objective(objective).complete(model));
  check_readable(attention, model, objective);
  Placement result = {model, {}};
  result.model["attention"] = attention;
  if (objective == "characters") result.sites = {"deep"};
  if (objective == "replaced_tokens") {
    const auto* generator = model.find("generator");
    result.sites = {"detector"};
    if (!generator || !generator->find("attention")) result.sites.emplace_back("generator");
  }
  return result;
}

}  // namespace longbow::arena
