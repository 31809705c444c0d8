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

std::string objective_of(const DataSource& source, const Node& options) {
  return source.objective_for ? source.objective_for(options) : source.objective;
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

void refuse_cut(const DataConfig& config, int64_t longest, const std::string& hint) {
  const auto most = config.max_tokens;
  check_options(config.places, "data", [&] {
    require_option(most == 0 || longest <= most, "max_tokens",
                   fmt::format("is {}, which would cut {} samples of up to {} tokens", most,
                               config.name, longest),
                   hint);
  });
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
