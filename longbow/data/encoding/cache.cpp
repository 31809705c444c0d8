#include "longbow/data/encoding/cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <regex>
#include <system_error>

#include "longbow/core/error.h"
#include "longbow/core/file_error.h"
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

bool is_draft(const fs::path& folder) {
  return folder.extension() == ".draft";
}

// The card is written last, so a folder without one is no entry.
bool is_entry(const fs::path& folder) {
  std::error_code unknown;
  return !is_draft(folder) && fs::exists(folder / kCard, unknown);
}

// A name that no other program takes, on any machine.
std::string draft_of(const std::string& folder) {
  std::random_device random;
  return folder + fmt::format(".{:08x}{:08x}.draft", random(), random());
}

void remove_draft(const fs::path& draft) {
  std::error_code failure;
  fs::remove_all(draft, failure);
  if (failure) fail_at(draft.string(), "cannot be removed", failure.value());
}

// It is a draft first, so that nobody reads what is left of it meanwhile.
void remove_entry(const std::string& folder) {
  const auto draft = draft_of(folder);
  std::error_code failure;
  fs::rename(folder, draft, failure);
  if (failure == std::errc::no_such_file_or_directory) return;  // another program was faster
  if (failure) fail_at(folder, "cannot be removed", failure.value());
  remove_draft(draft);
}

CachedData described(const fs::path& folder) {
  CachedData entry = {.name = folder.filename().string(), .unfinished = !is_entry(folder)};
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

// Of several writers the first one counts; the others keep their drafts.
void publish(const std::string& draft, const std::string& folder) {
  std::error_code failure;
  fs::rename(draft, folder, failure);
  if (failure && !is_entry(folder)) {  // what is left of an entry is in the way
    remove_entry(folder);
    fs::rename(draft, folder, failure);
  }
  if (failure && !is_entry(folder))
    throw UserError(Place{folder, 0}, "cannot be written", failure.message());
}

void build(const std::string& folder, const std::function<void(const std::string& draft)>& fill) {
  const auto draft = draft_of(folder);
  make_folder(draft);
  try {
    fill(draft);
    publish(draft, folder);
  } catch (...) {
    fs::remove_all(draft);
    throw;
  }
  fs::remove_all(draft);
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
  if (!is_entry(folder)) build(folder, fill);
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
  if (is_draft(path))
    remove_draft(path);
  else
    remove_entry(path.string());
}

}  // namespace longbow
