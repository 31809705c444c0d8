#pragma once
// The folder in which encoded and generated data sets are kept, one folder each.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace longbow {

// That of data.cache, or what the environment says.
std::string cache_folder(const std::string& given);

// The folder of the data set `name` with this key in the cache, made by `fill` where there is none
// yet. `fill` gets a folder beside that place and writes cache.json last; it is renamed then: of
// several writers the first one counts. A folder that has lost its cache.json is no entry: it is
// made again.
std::string cached_folder(const std::string& cache, const std::string& name, const std::string& key,
                          const std::function<void(const std::string& draft)>& fill);

struct CachedData {
  std::string name;  // of its folder: the data set, and a key
  int64_t bytes = 0;
  std::filesystem::file_time_type used = {};  // when a run has last read it
  // Without its cache.json: being written or removed now, or left by a program that was killed.
  bool unfinished = false;
};

// Ordered by name. What is not of longbow's making is not listed; no folder, no entries.
std::vector<CachedData> cached_data(const std::string& folder);
// Readers see all of an entry or none of it. UserError without a place where there is no such
// entry.
void remove_cached_data(const std::string& folder, const std::string& name);

}  // namespace longbow
