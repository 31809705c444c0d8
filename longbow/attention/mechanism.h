#pragma once
// The table of mechanisms. One source file in this folder is one row; CMake collects them.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "longbow/core/config.h"
#include "longbow/core/fields.h"
#include "longbow/core/option_error.h"
#include "longbow/nn/layers/block.h"

namespace longbow {

struct Variant {
  std::string name;     // the laws run the default options and each of these
  std::string options;  // YAML
};

// Options by name with their values; "" = not known yet.
using OptionValues = std::map<std::string, std::string>;

struct Mechanism {
  std::string name, family, paper, cost;  // cost of the core, without projections
  std::string summary;                    // one sentence
  std::string exact;  // when it equals softmax attention, or what else it equals
  std::vector<Variant> variants;
  // All take the options as a tree, read them strictly, and name file and line of what is wrong in
  // them.
  std::function<Promises(const Node&)> promises;
  std::function<Node(const Node&)> resolve;  // every option spelled out
  // OptionError when options do not go together, or not with the site. A length of 0 is not known
  // yet, and is not checked.
  std::function<void(const Site&, const Node&)> check;
  std::function<Mixer(const Site&, const Node&)> mixer;
  // How the block around the mixer differs from what is asked for; empty where it does not.
  std::function<void(BlockConfig&, const Node&)> block;
  // Options that must be the same in all layers with this mechanism, which share or hand on what
  // depends on them; empty where a layer takes no part in that.
  std::function<OptionValues(const Site&, const Node&)> common;
  std::vector<FieldDoc> options;
};

const std::vector<Mechanism>& mechanisms();
// UserError with the nearest names when there is none.
const Mechanism& find_mechanism(const std::string& name, const Place& place = {});
// Names of the rows whose default options keep a promise, "a, b, c".
std::string mechanisms_that(bool (*promise)(const Promises&));
// UserError where a mechanism has no queries and keys that could be rotated.
void check_rotary(const Node& options);

// The row's check, of options as written in a config.
void check_options(const Node& options, const Site& site);

// `options` as written in a config: {name: linformer, rank: 64}. Places in it are kept for the
// messages. They are checked first, so that a mechanism's constructor need not.
Mixer make_mixer(const Node& options, const Site& site);
// The same from code: make_mixer("linformer", site, "{rank: 64}").
Mixer make_mixer(const std::string& name, const Site& site, const std::string& options = "");
// The mixer in its block, as the mechanism wants it.
Block make_block(const Node& options, const Site& site, BlockConfig config);
// The config of a block, as its mechanism wants it.
BlockConfig block_of(const Node& options, BlockConfig config);
// A decoder's block: self-attention, cross-attention to a memory as the site's shape says, and the
// feed-forward layer that goes with the first.
Block make_block(const Node& options, const Node& cross, const Site& site, BlockConfig config);
// A config's {name: …} tree split into its row and the options proper.
const Mechanism& mechanism_of(const Node& options);
Node options_of(const Node& options);

// What the author of a row writes; the rest is derived from Config's fields().
struct RowText {
  std::string name, family, paper, cost, summary, exact;
  std::vector<Variant> variants = {};
};

// `check` may throw an OptionError; null where every combination of options is a mechanism.
template <class Config>
Mechanism over_tokens(RowText row, Promises (*promises)(const Config&),
                      Mixer (*make)(const Site&, const Config&),
                      void (*check)(const Config&, const Site&) = nullptr) {
  const auto name = row.name;
  return {
      .name = row.name,
      .family = row.family,
      .paper = row.paper,
      .cost = row.cost,
      .summary = row.summary,
      .exact = row.exact,
      .variants = row.variants,
      .promises = [=](const Node& o) { return promises(read<Config>(o, name)); },
      .resolve = [=](const Node& o) { return written(read<Config>(o, name)); },
      .check =
          [=](const Site& site, const Node& o) {
            const auto config = read<Config>(o, name);
            if (check) check_options(o, name, [&] { check(config, site); });
          },
      .mixer = [=](const Site& site, const Node& o) { return make(site, read<Config>(o, name)); },
      .block = {},
      .common = {},
      .options = describe<Config>()};
}

// Says which options all layers have in common.
template <class Config>
Mechanism with_common(Mechanism row, OptionValues (*common)(const Config&, const Site&)) {
  const auto name = row.name;
  row.common = [=](const Site& site, const Node& o) { return common(read<Config>(o, name), site); };
  return row;
}

template <class Config>
Mechanism over_heads(RowText row, Promises (*promises)(const Config&),
                     Attention (*make)(const Site&, const Config&),
                     void (*check)(const Config&, const Site&) = nullptr) {
  const auto name = row.name;
  auto mechanism = over_tokens<Config>(std::move(row), promises, nullptr, check);
  mechanism.promises = [=](const Node& o) {
    auto kept = promises(read<Config>(o, name));
    kept.rotary = true;
    return kept;
  };
  mechanism.mixer = [=](const Site& site, const Node& o) {
    return multi_head(site, make(site, read<Config>(o, name)));
  };
  return mechanism;
}

}  // namespace longbow
