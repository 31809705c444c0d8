#include "longbow/data/sets/pathfinder.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "longbow/core/work.h"
#include "longbow/data/sets/pathfinder/cached_pictures.h"
#include "longbow/data/sets/pathfinder/picture.h"

namespace longbow {

using pathfinder::kRound;
using pathfinder::kSplits;

pathfinder::Kind painted_kind(const PathfinderConfig& config) {
  auto kind = pathfinder::kind_of(config.size, config.level);
  kind.original_border = config.original_border;
  return kind;
}

void check_pathfinder(const PathfinderConfig& config) {
  (void)painted_kind(config);
}

std::array<int64_t, 3> picture_counts(const PathfinderConfig& config) {
  return {config.train, config.valid, config.test};
}

Stream picture_stream(uint64_t seed, size_t split) {
  return Stream(seed, std::string("pathfinder/") + kSplits[split]);
}

Splits make_pathfinder(const DataConfig& data, const PathfinderConfig& config) {
  const auto kind = painted_kind(config);
  auto drawn = config;
  drawn.split = {};  // of folders
  const Node key = Node::map({{"version", Node::integer(pathfinder::kVersion)},
                              {"options", written(drawn)},
                              {"seed", Node::integer(static_cast<int64_t>(data.seed))}});
  std::unique_ptr<pathfinder::Painter> painter;
  return pathfinder::cached_pictures(
      data, key, config.size, [&](size_t split, ImageWriter& writer) {
        if (!painter) painter = std::make_unique<pathfinder::Painter>(kind);
        const auto stream = picture_stream(data.seed, split);
        const auto count = picture_counts(config)[split];
        Work work(fmt::format("making pathfinder, {}", kSplits[split]), count);
        for (int64_t first = 0; first < count; first += kRound) {
          for (const auto& picture :
               paint(*painter, stream, first, std::min(kRound, count - first)))
            writer.add(picture.pixels, picture.label);
          work.reached(std::min(first + kRound, count));
        }
      });
}

DataSource pathfinder_data_set() {
  return data_source<PathfinderConfig>(
      {.name = "pathfinder",
       .description = "Long Range Arena Pathfinder: do two dots lie on the same dashed path",
       .objective = "classification",
       .files = {"pathfinder32", kPathfinderListing},
       .recipe = {"{task: pathfinder, data: {pathfinder: {level: easy, train: 8000, valid: 200, "
                  "test: 500}}, train: {max_steps: 150, evaluate_every: 50}}",
                  "50 % accuracy, as a guess does; see docs/data/pathfinder.md"},
       .origin = {.licence = "Apache 2.0",
                  .published =
                      "Long Range Arena, https://github.com/google-research/long-range-arena",
                  .files = {"pathfinder32/curv_contour_length_14: the level hard, of "
                            "https://storage.googleapis.com/long-range-arena/lra_release.gz, "
                            "unpacked",
                            "pathfinder32/curv_baseline, pathfinder32/curv_contour_length_9: the "
                            "levels easy and inter",
                            "pathfinder64, pathfinder128, pathfinder256: the other sizes"}},
       .recomputes = false},
      [](const DataConfig& data, const PathfinderConfig& config) {
        return data.path.empty() ? make_pathfinder(data, config) : load_pathfinder(data, config);
      },
      write_pathfinder, check_pathfinder);
}

}  // namespace longbow
