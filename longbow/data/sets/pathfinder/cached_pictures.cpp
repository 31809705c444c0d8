#include "longbow/data/sets/pathfinder/cached_pictures.h"

#include <filesystem>
#include <string>

#include "longbow/core/fields.h"
#include "longbow/core/file.h"
#include "longbow/data/encoding/cache.h"
#include "longbow/data/samples/stored_file.h"

namespace longbow::pathfinder {
namespace {

// cache.json
struct Card {
  std::array<std::string, 3> checksums = {};
};
template <class V>
void fields(V& v, Card& c) {
  for (size_t i = 0; i < kSplits.size(); ++i)
    v(kSplits[i], c.checksums[i], "SHA-256 of the samples of this split");
}

std::string in(const std::string& folder, const char* name) {
  return (std::filesystem::path(folder) / name).string();
}

void fill_folder(const std::string& folder, int64_t size, const Fill& fill) {
  Card card;
  for (size_t i = 0; i < kSplits.size(); ++i) {
    const auto part = in(folder, kSplits[i]);
    ImageWriter writer(part, size, size);
    fill(i, writer);
    writer.finish();
    card.checksums[i] = open_images(part)->checksum();
  }
  write_file(in(folder, "cache.json"), to_json(written(card), 2) + "\n");
}

}  // namespace

Splits cached_pictures(const DataConfig& data, const Node& key, int64_t size, const Fill& fill) {
  const auto folder =
      cached_folder(cache_folder(data.cache), "pathfinder", sha256(to_json(key, 0)),
                    [&](const std::string& draft) { fill_folder(draft, size, fill); });
  const auto card = read_card<Card>(in(folder, "cache.json"));
  Splits splits = {.train = open_images(in(folder, kSplits[0])),
                   .valid = open_images(in(folder, kSplits[1])),
                   .test = open_images(in(folder, kSplits[2])),
                   .vocabulary = kGreyTokens,
                   .classes = 2,
                   .max_length = size * size,
                   .image = {size, size},
                   .symbols = grey_symbols(),
                   .labels = {"apart", "joined"}};
  for (size_t i = 0; i < kSplits.size(); ++i) splits.checksums[kSplits[i]] = card.checksums[i];
  refuse_cut(data, splits.max_length, "a path may lead anywhere; choose a smaller size instead");
  return splits;
}

}  // namespace longbow::pathfinder
