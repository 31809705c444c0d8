#pragma once
// Pathfinder of the Long Range Arena: generated, or read from its folders of PNG files.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "longbow/core/fields.h"
#include "longbow/core/seed.h"
#include "longbow/data/readers/source.h"
#include "longbow/data/samples/dataset.h"
#include "longbow/data/sets/pathfinder/kind.h"

namespace longbow {

// Which pictures of a published folder are for training, validation and test.
enum class PathfinderSplit { s4_seed42, order };
constexpr std::array<std::string_view, 2> names_of(PathfinderSplit) {
  return {"s4-seed42", "order"};
}

struct PathfinderConfig {
  int64_t size = 32;
  pathfinder::Level level = pathfinder::Level::hard;
  int64_t train = 160000, valid = 20000, test = 20000;
  PathfinderSplit split = PathfinderSplit::s4_seed42;
  bool original_border = false;
};
template <class V>
void fields(V& v, PathfinderConfig& c) {
  v("size", c.size, "pixels of a side: 32, 64, 128 (Path-X) or 256", range(32, 256));
  v("level", c.level, "contours of 6, 9 or 14 paddles");
  v("train", c.train, "training samples, of those that are generated", range(1, 1e8));
  v("valid", c.valid, "validation samples, of those that are generated", range(1, 1e8));
  v("test", c.test, "test samples, of those that are generated", range(1, 1e8));
  v("split", c.split,
    "of published folders, 80/10/10: s4-seed42: in the order of torch.randperm with seed 42, as "
    "S4's; order: as they are numbered");
  v("original_border", c.original_border,
    "begin contours only in directions in which the original program can, where its dilation "
    "meets the border");
}

inline constexpr const char* kPathfinderListing = "images.sha256";

pathfinder::Kind painted_kind(const PathfinderConfig& config);  // OptionError where there is none
void check_pathfinder(const PathfinderConfig& config);
std::array<int64_t, 3> picture_counts(const PathfinderConfig& config);  // train, valid, test
Stream picture_stream(uint64_t seed, size_t split);                     // in that order

// Test, validation and training pictures are three streams: a smaller training set keeps the other
// two.
Splits make_pathfinder(const DataConfig& data, const PathfinderConfig& config);
Splits load_pathfinder(const DataConfig& data, const PathfinderConfig& config);
// The folders as they are published, images.sha256 for `sha256sum -c`, contact_sheet.png and
// manifest.json.
void write_pathfinder(const std::string& dir, const PathfinderConfig& config, uint64_t seed);

}  // namespace longbow
