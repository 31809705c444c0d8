#include "longbow/data/encoding/cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <regex>
#include <system_error>

#include "longbow/core/error.h"
#include "longbow/core/folder.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCard = "cache.json";
constexpr size_t kKeyDigits = 24;

// DATA-KEY, or DATA-KEY.NUMBER.draft.
bool is_ours(const std::string& name) {
  static const std::regex form("[a-z0-9_]+-[0-9a-f]{24}(\\.[0-9a-f]{16}\\.draft)?");
  return std::regex_match(name, form);
}

CachedData described(const fs::path& folder) {
  CachedData entry = {.name = folder.filename().string(),
                      .unfinished = folder.extension() == ".draft"};
  std::error_code gone;  // another program may be removing it
  entry.used = fs::last_write_time(entry.unfinished ? folder : folder / kCard, gone);
  for (auto file = fs::recursive_directory_iterator(folder, gone);
       file != fs::recursive_directory_iterator(); file.increment(gone)) {
    if (!file->is_regular_file(gone)) continue;
    entry.bytes += static_cast<int64_t>(file->file_size(gone));
    if (entry.unfinished) entry.used = std::max(entry.used, file->last_write_time(gone));
  }
  return entry;
}

void build(const std::string& folder, const std::function<void(const std::string& draft)>& fill) {
  std::random_device random;  // writers may be on several machines
  const auto draft = folder + fmt::format(".{:08x}{:08x}.draft", random(), random());
  make_folder(draft);
  try {
    fill(draft);
  } catch (...) {
    fs::remove_all(draft);
    throw;
  }
  std::error_code failure;
  fs::rename(draft, folder, failure);
  if (!failure) return;
  fs::remove_all(draft);
  if (!fs::exists(fs::path(folder) / kCard))
    throw UserError(Place{folder, 0}, "cannot be written", failure.message());
}

void note_use(const std::string& folder) {
  std::error_code read_only;  // then its age is that of its making
  fs::last_write_time(fs::path(folder) / kCard, fs::file_time_type::clock::now(), read_only);
}

}  // namespace

std::string cache_folder(const std::string& given) {
  if (!given.empty()) return given;
  const auto variable = [](const char* name) -> std::string {
    const auto* value = std::getenv(name);
    return value ? value : "";
  };
  if (const auto own = variable("LONGBOW_CACHE"); !own.empty()) return own;
  if (const auto base = variable("XDG_CACHE_HOME"); !base.empty())
    return (fs::path(base) / "longbow").string();
  const auto home = variable("HOME");
  return (home.empty() ? fs::temp_directory_path() / "longbow-cache"
                       : fs::path(home) / ".cache" / "longbow")
      .string();
}

std::string cached_folder(const std::string& cache, const std::string& name, const std::string& key,
                          const std::function<void(const std::string& draft)>& fill) {
  const auto folder = (fs::path(cache) / (name + "-" + key.substr(0, kKeyDigits))).string();
  if (!fs::exists(fs::path(folder) / kCard)) build(folder, fill);
  note_use(folder);
  return folder;
}

std::vector<CachedData> cached_data(const std::string& folder) {
  std::vector<CachedData> all;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing))
    if (entry.is_directory() && is_ours(entry.path().filename().string()))
      all.push_back(described(entry.path()));
  std::ranges::sort(all, {}, &CachedData::name);
  return all;
}

void remove_cached_data(const std::string& folder, const std::string& name) {
  const auto path = fs::path(folder) / name;
  if (!is_ours(name) || !fs::is_directory(path))
    throw UserError("the cache has no entry '" + name + "'", "`longbow data cache` lists them");
  fs::remove_all(path);
}

}  // namespace longbow
