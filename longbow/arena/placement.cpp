#include "longbow/arena/placement.h"

#include <algorithm>

#include "longbow/models/encoder/encoder_config.h"
#include "longbow/tasks/task.h"

namespace longbow::arena {
namespace {

using Choice = AttentionSite::Choice;

// Whether the mechanism promises what a site needs in every layer of a part of the model; its
// options are read strictly.
bool keeps(const Node& attention, const Node& part, bool (*needs)(const Promises&)) {
  const auto* layers = part.find("layers");
  const auto each = attention_per_layer(
      attention, layers ? as_integer(*layers, "layers") : EncoderConfig().layers);
  return std::all_of(each.begin(), each.end(), [&](const Node& options) {
    const auto promises = mechanism_of(options).promises(options_of(options));
    return !needs || needs(promises);
  });
}

Node part_of(const Node& model, const AttentionSite& site) {
  if (site.part.empty()) return model;
  const auto* part = model.find(site.part);
  return part && part->is_map() ? *part : Node::map();
}

}  // namespace

void check_readable(const Node& attention, const Node& model, const std::string& objective) {
  const auto& row = find_objective(objective);
  const auto whole = row.complete(model);
  for (const auto& site : row.sites)
    if (site.choice == Choice::free) keeps(attention, part_of(whole, site), nullptr);
}

Placement placed(const Node& attention, const Node& model, const std::string& objective) {
  const auto& row = find_objective(objective);
  Placement result = {row.complete(model), {}};
  bool any = false;
  for (const auto& site : row.sites) {
    auto part = part_of(result.model, site);
    const bool takes = site.choice == Choice::free
                           ? keeps(attention, part, site.needs)
                           : site.choice == Choice::follows && !part.find(site.key);
    if (takes && !site.name.empty()) result.sites.push_back(site.name);
    if (!takes || site.choice == Choice::follows) continue;
    any = true;
    part[site.key] = attention;
    if (site.part.empty())
      result.model = std::move(part);
    else
      result.model[site.part] = std::move(part);
  }
  if (!any)
    throw UserError(attention.place,
                    mechanism_of(attention).name + " has no place in a model of " + objective);
  return result;
}

}  // namespace longbow::arena
