#include <fmt/format.h>

#include <filesystem>
#include <tuple>

#include "longbow/data/readers/manifest.h"
#include "longbow/data/readers/source.h"

namespace longbow {

std::vector<std::string> verify(const std::string& dir) {
  const auto file = (std::filesystem::path(dir) / "manifest.json").string();
  auto manifest = find_manifest(dir);
  if (!manifest)
    throw UserError(Place{file}, "no such file",
                    "only folders that `longbow data make` wrote can be verified");
  std::vector<std::string> lines;
  for (const auto& listed : manifest->files) lines.push_back(check_file(dir, listed));
  auto splits = load_data({.name = manifest->name, .path = dir});
  lines.push_back(find_data_source(manifest->name).recomputes
                      ? "labels: every one recomputed"
                      : "labels: compared by checksum; samples do not tell them");
  Manifest found;
  set_histograms(found, splits);
  for (auto [name, expected, actual] : {std::tuple{"labels", &manifest->labels, &found.labels},
                                        std::tuple{"lengths", &manifest->lengths, &found.lengths}})
    if (to_json(*expected) != to_json(*actual))
      throw UserError(Place{file}, fmt::format("its {} are not those of the files", name),
                      kCutOrChanged);
  lines.push_back("histograms: as in manifest.json");
  return lines;
}

}  // namespace longbow
