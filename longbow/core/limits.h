#pragma once
// What a document may ask of memory, in one place for the readers.
#include <cstddef>

namespace longbow {

constexpr size_t kMostLevels = 100;        // of lists and maps in each other
constexpr size_t kMostValues = 1'000'000;  // of JSON: some hundred MB at most
// Of YAML, whose parser may take 130 bytes for each of the file's, and the bytes of a config in
// JSON too. Aliases count as what they name.
constexpr size_t kMostConfigBytes = size_t{1} << 20;
constexpr size_t kMostConfigValues = 100'000;

}  // namespace longbow
