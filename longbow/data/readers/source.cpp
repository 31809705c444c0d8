#include "longbow/data/readers/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace longbow {

const DataSource& find_data_source(const std::string& name, const Place& place,
                                   const char* called) {
  std::vector<std::string> known;
  for (const auto& source : data_sources()) {
    if (source.name == name) return source;
    known.push_back(source.name);
  }
  throw UserError(place, "unknown " + std::string(called) + " '" + name + "'",
                  suggest(name, known));
}

Splits load_data(const DataConfig& config) {
  return find_data_source(config.name).load(config);
}

void make_data(const std::string& name, const std::string& dir, const Node& options,
               uint64_t seed) {
  const auto& source = find_data_source(name);
  if (!source.make)
    throw UserError(name + " is not generated", "it reads files that exist already");
  source.make(dir, options, seed);
}

void refuse_cut(const DataConfig& config, const Splits& splits, const std::string& hint) {
  if (config.max_tokens > 0 && splits.max_length > config.max_tokens)
    throw UserError(fmt::format("max_tokens {} would cut {} samples of up to {} tokens",
                                config.max_tokens, config.name, splits.max_length),
                    hint);
}

void drop_other_sets(Node& data) {
  constexpr std::array<const char*, 7> kOnce = {"listops", "recall", "match",  "count",
                                                "needle",  "markov", "reverse"};
  const auto* name = data.find("name");
  const bool lists_all = std::all_of(kOnce.begin(), kOnce.end(),
                                     [&](const char* set) { return data.find(set) != nullptr; });
  if (!name || !lists_all) return;
  const auto own = name->text;
  std::erase_if(data.entries, [&](const auto& entry) {
    return entry.first != own && std::find(kOnce.begin(), kOnce.end(), entry.first) != kOnce.end();
  });
}

}  // namespace longbow
