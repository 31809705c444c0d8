#pragma once
// The folder in which encoded data sets are kept, one folder each.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace longbow {

// That of data.cache, or what the environment says.
std::string cache_folder(const std::string& given);

struct CachedData {
  std::string name;  // of its folder: the data set, and a key
  int64_t bytes = 0;
  std::filesystem::file_time_type used = {};  // when a run has last read it
  // A draft: being written now, or left by a program that was killed.
  bool unfinished = false;
};

// Ordered by name. What is not of longbow's making is not listed; no folder, no entries.
std::vector<CachedData> cached_data(const std::string& folder);
// UserError without a place where there is no such entry.
void remove_cached_data(const std::string& folder, const std::string& name);

// Notes that a run reads what is cached in this folder of its own.
void note_use(const std::string& entry);

}  // namespace longbow
