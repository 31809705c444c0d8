#pragma once
#include <array>
#include <cstdint>
#include <functional>

#include "longbow/core/config.h"
#include "longbow/data/readers/source.h"
#include "longbow/data/samples/dataset.h"
#include "longbow/data/samples/image_store.h"

namespace longbow::pathfinder {

constexpr std::array<const char*, 3> kSplits = {"train", "valid", "test"};
constexpr int64_t kRound = 1024;  // pictures that are in memory at once

// Writes the pictures of a split, by its place in kSplits.
using Fill = std::function<void(size_t split, ImageWriter&)>;

// Pictures of size x size as samples, from the cache; `fill` makes them where nothing is cached
// under this key.
Splits cached_pictures(const DataConfig& data, const Node& key, int64_t size, const Fill& fill);

}  // namespace longbow::pathfinder
