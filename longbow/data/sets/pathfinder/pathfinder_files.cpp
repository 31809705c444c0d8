// The folders of Pathfinder as data: read with their splits, and written with a manifest.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>
#include <span>

#include "longbow/core/file.h"
#include "longbow/core/log.h"
#include "longbow/core/on_all_cores.h"
#include "longbow/core/work.h"
#include "longbow/data/readers/manifest.h"
#include "longbow/data/readers/torch_permutation.h"
#include "longbow/data/sets/pathfinder.h"
#include "longbow/data/sets/pathfinder/cached_pictures.h"
#include "longbow/data/sets/pathfinder/folders.h"
#include "longbow/data/sets/pathfinder/picture.h"

namespace longbow {
namespace {

using pathfinder::Entry;
using pathfinder::kRound;
using pathfinder::kSplits;

std::string in(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

int64_t sum_of(const std::array<int64_t, 3>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// The pictures of a folder in the order of their splits, with the sizes of those.
struct Parted {
  std::vector<Entry> entries;
  std::array<int64_t, 3> counts;
};

Parted parted(const pathfinder::Folder& folder, const PathfinderConfig& config,
              const std::optional<Manifest>& manifest) {
  const auto total = std::ssize(folder.entries);
  if (manifest)
    return {folder.entries, picture_counts(read<PathfinderConfig>(manifest->config, "config"))};
  if (total < 10)
    throw UserError(Place{in(folder.root, folder.metadata[0]), 0},
                    fmt::format("{} pictures are too few for three splits", total));
  std::vector<Entry> entries = folder.entries;
  if (config.split == PathfinderSplit::s4_seed42) {
    const auto order = torch_permutation(total, 42);
    for (size_t i = 0; i < order.size(); ++i)
      entries[i] = folder.entries[static_cast<size_t>(order[i])];
  }
  const auto held = total / 10;
  return {std::move(entries), {total - 2 * held, held, held}};
}

// Where `data make` wrote the folder, all must be as it was.
void check_listing(const std::string& root, const Manifest& manifest, const std::string& listing,
                   int64_t samples) {
  const auto path = in(root, kPathfinderListing);
  const auto written = read_file(path);
  if (manifest.files.size() != 1 || manifest.files[0].name != kPathfinderListing)
    throw UserError(Place{in(root, "manifest.json"), 0},
                    fmt::format("does not list {}", kPathfinderListing));
  const auto& file = manifest.files[0];
  if (sha256(written) != file.sha256)
    throw UserError(Place{path, 0}, "its sha256 is not the one in manifest.json", kCutOrChanged);
  if (listing != written) {
    const auto [mine, other] =
        std::mismatch(listing.begin(), listing.end(), written.begin(), written.end());
    const auto line = std::count(written.begin(), other, '\n');
    throw UserError(Place{path, static_cast<int>(line + 1)},
                    "the sha256 of the file is another one, or the file is missing", kCutOrChanged);
  }
  if (samples != file.samples)
    throw UserError(Place{path, 0},
                    fmt::format("{} samples, but manifest.json says {}", samples, file.samples),
                    kCutOrChanged);
}

Node counts_node(const std::array<int64_t, 2>& labels) {
  Node node = Node::map();
  for (size_t i = 0; i < labels.size(); ++i)
    if (labels[i] > 0) node[std::to_string(i)] = Node::integer(labels[i]);
  return node;
}

}  // namespace

Splits load_pathfinder(const DataConfig& data, const PathfinderConfig& config) {
  auto options = config;
  const auto manifest = find_manifest(data.path);
  if (manifest)
    options = read_options<PathfinderConfig>(manifest->config, "config", check_pathfinder);
  const auto folder = pathfinder::find_folder(data.path, options.size, options.level);
  if (folder.empty > 0)
    warn(fmt::format("pathfinder: {} left out",
                     folder.empty == 1
                         ? "1 picture is an empty file and"
                         : fmt::format("{} pictures are empty files and", folder.empty)));
  const auto listing = checksums_of(folder);
  if (manifest) check_listing(folder.root, *manifest, listing, std::ssize(folder.entries));
  const auto parts = parted(folder, options, manifest);
  const auto& entries = parts.entries;
  const auto& counts = parts.counts;
  if (sum_of(counts) != std::ssize(entries))
    throw UserError(Place{in(data.path, "manifest.json"), 0},
                    "its counts are not those of its pictures", kCutOrChanged);
  const Node key =
      Node::map({{"version", Node::integer(pathfinder::kVersion)},
                 {"files", Node::string(sha256(listing))},
                 {"size", Node::integer(options.size)},
                 {"split", Node::string(manifest ? "manifest" : name_of(options.split))},
                 {"counts", Node::integer(counts[0])}});
  auto splits =
      pathfinder::cached_pictures(data, key, options.size, [&](size_t split, ImageWriter& writer) {
        int64_t before = 0;
        for (size_t i = 0; i < split; ++i) before += counts[i];
        Work work(fmt::format("reading pathfinder, {}", kSplits[split]), counts[split]);
        for (int64_t first = 0; first < counts[split]; first += kRound) {
          const auto some = std::span(entries).subspan(
              static_cast<size_t>(before + first),
              static_cast<size_t>(std::min(kRound, counts[split] - first)));
          std::vector<std::vector<uint8_t>> pictures(some.size());
          on_all_cores(std::ssize(some), [&](int64_t i) {
            const auto which = static_cast<size_t>(i);
            pictures[which] = read_picture(folder, some[which], options.size);
          });
          for (size_t i = 0; i < some.size(); ++i) writer.add(pictures[i], some[i].label);
          work.reached(first + std::ssize(some));
        }
      });
  splits.checksums[kPathfinderListing] = sha256(listing);
  return splits;
}

void write_pathfinder(const std::string& dir, const PathfinderConfig& config, uint64_t seed) {
  const pathfinder::Painter painter(painted_kind(config));
  const auto folder = in(dir, pathfinder::folder_name(config.size, config.level));
  if (std::filesystem::exists(folder))
    throw UserError(Place{folder, 0}, "exists already", "remove it, or give another folder");
  const auto counts = picture_counts(config);
  const auto total = sum_of(counts);
  std::vector<pathfinder::Picture> waiting, shown;
  std::array<int64_t, 2> labels = {};
  int64_t batch = 0, done = 0;
  Work work("making pathfinder", total);
  for (size_t split = 0; split < kSplits.size(); ++split) {
    const auto stream = picture_stream(seed, split);
    for (int64_t first = 0; first < counts[split];) {
      const auto room = pathfinder::kBatch - std::ssize(waiting);
      auto some = paint(painter, stream, first, std::min(room, counts[split] - first));
      first += std::ssize(some);
      done += std::ssize(some);
      for (auto& picture : some) {
        ++labels[static_cast<size_t>(picture.label)];
        if (batch == 0) shown.push_back(picture);
        waiting.push_back(std::move(picture));
      }
      if (std::ssize(waiting) < pathfinder::kBatch && done < total) continue;
      write_batch(dir, painter.kind(), config.level, batch++, waiting);
      waiting.clear();
      work.reached(done);
    }
  }
  write_file(in(dir, "contact_sheet.png"), contact_sheet(shown, static_cast<int>(config.size)));
  const auto listing = checksums_of(pathfinder::find_folder(dir, config.size, config.level));
  write_file(in(dir, kPathfinderListing), listing);
  const auto length = (config.size * config.size + 63) / 64 * 64;
  const Manifest manifest = {
      .name = "pathfinder",
      .seed = seed,
      .version = pathfinder::kVersion,
      .config = written(config),
      .files = {{.name = kPathfinderListing,
                 .bytes = std::ssize(listing),
                 .sha256 = sha256(listing),
                 .samples = total}},
      .labels = counts_node(labels),
      .lengths = Node::map({{std::to_string(length), Node::integer(total)}})};
  write_file(in(dir, "manifest.json"), to_json(written(manifest), 2) + "\n");
}

}  // namespace longbow
