#include "longbow/attention/mechanism.h"

namespace longbow {

const Mechanism& find_mechanism(const std::string& name, const Place& place) {
  std::vector<std::string> known;
  for (const auto& mechanism : mechanisms()) {
    if (mechanism.name == name) return mechanism;
    known.push_back(mechanism.name);
  }
  throw UserError(place, "unknown mechanism '" + name + "'", suggest(name, known));
}

std::string mechanisms_that(bool (*promise)(const Promises&)) {
  std::string names;
  for (const auto& mechanism : mechanisms())
    if (promise(mechanism.promises({}))) names += (names.empty() ? "" : ", ") + mechanism.name;
  return names;
}

void check_rotary(const Node& options) {
  const auto& mechanism = mechanism_of(options);
  if (!mechanism.promises(options_of(options)).rotary)
    throw UserError(
        options.place, mechanism.name + " has no queries and keys to rotate",
        "mechanisms that have: " + mechanisms_that([](const Promises& p) { return p.rotary; }));
}

const Mechanism& mechanism_of(const Node& options) {
  if (options.is_scalar()) return find_mechanism(options.text, options.place);
  const auto* name = options.find("name");
  if (!name)
    throw UserError(options.place, "attention has no name",
                    "write {name: softmax}, or another mechanism");
  return find_mechanism(as_string(*name, "attention.name"), name->place);
}

Node options_of(const Node& options) {
  Node rest = Node::map();
  rest.place = options.place;
  for (const auto& [key, value] : options.entries)
    if (key != "name") rest.entries.emplace_back(key, value);
  return rest;
}

void check_options(const Node& options, const Site& site) {
  mechanism_of(options).check(site, options_of(options));
}

Mixer make_mixer(const Node& options, const Site& site) {
  const auto& mechanism = mechanism_of(options);
  const auto own = options_of(options);
  const bool rotates = site.rotary && !site.cross;
  if (rotates) check_rotary(options);
  mechanism.check(site, own);
  auto mixer = mechanism.mixer(site, own);
  auto promises = mechanism.promises(own);
  promises.positional = promises.positional || rotates;
  mixer->label({mechanism.name, promises, mechanisms_that});
  return mixer;
}

Mixer make_mixer(const std::string& name, const Site& site, const std::string& options) {
  auto node = options.empty() ? Node::map() : parse_yaml(options, name + " options");
  node["name"] = Node::string(name);
  return make_mixer(node, site);
}

BlockConfig block_of(const Node& options, BlockConfig config) {
  const auto& mechanism = mechanism_of(options);
  if (mechanism.block) mechanism.block(config, options_of(options));
  return config;
}

Block make_block(const Node& options, const Site& site, BlockConfig config) {
  config = block_of(options, config);
  return residual(site, config.mixes ? make_mixer(options, site.at("mixer")) : nullptr, config);
}

Block make_block(const Node& options, const Node& cross, const Site& site, BlockConfig config) {
  config = block_of(options, config);
  auto there = site.at("cross");
  there.cross = true;
  if (site.shared) there.shared = site.shared->child("cross");
  // First the one that reads the memory: what it shares, the other may share too (Luna).
  const auto reader = make_mixer(cross, there);
  return residual(site,
                  {{"mixer", config.mixes ? make_mixer(options, site.at("mixer")) : nullptr},
                   {"cross", reader, /*cross=*/true}},
                  config);
}

}  // namespace longbow
