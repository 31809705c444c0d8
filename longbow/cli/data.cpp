#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <ratio>
#include <system_error>

#include "longbow/cli/columns.h"
#include "longbow/cli/commands.h"
#include "longbow/core/error.h"
#include "longbow/core/interruption.h"
#include "longbow/core/log.h"
#include "longbow/core/work.h"
#include "longbow/data/encoding/cache.h"
#include "longbow/data/readers/manifest.h"
#include "longbow/data/readers/source.h"

namespace fs = std::filesystem;

namespace longbow::cli {
namespace {

void print_options(const DataSource& source) {
  for (const auto& option : source.options)
    fmt::print("  {:<12} {} [default {}{}]: {}\n", option.name, option.type, option.fallback,
               option.range.empty() ? "" : ", " + option.range, option.meaning);
}

int list_all() {
  NamedRows generated, own, published;
  for (const auto& source : data_sources()) {
    auto& rows = source.make ? generated : source.origin.published.empty() ? own : published;
    rows.emplace_back("  " + source.name, source.description);
  }
  fmt::print("Generated\n{}\nYour own files\n{}\nPublished (needs files)\n{}\n",
             two_columns(generated), two_columns(own), two_columns(published));
  fmt::print("One of them with its files and options: longbow data list NAME\n");
  return 0;
}

NamedRows files_of(const DataSource& source) {
  const auto& published = source.origin.files;
  NamedRows rows;
  if (source.make)
    rows = {{"files", fmt::format("none needed; `longbow data make {}` writes them{}", source.name,
                                  published.empty() ? "" : ", or published ones in data.path:")}};
  else if (published.empty())
    rows = {{"files", "in data.path, as its options name them"}};
  else
    rows = {{"files", "to be put into data.path; each may be packed as .xz or .gz"}};
  for (const auto& file : published) rows.emplace_back("", file);
  return rows;
}

int list_one(const DataSource& source) {
  NamedRows rows = {{source.name, source.description}, {"objective", source.objective}};
  if (!source.origin.licence.empty()) rows.emplace_back("licence", source.origin.licence);
  if (!source.origin.published.empty()) rows.emplace_back("published", source.origin.published);
  for (auto& row : files_of(source)) rows.push_back(std::move(row));
  if (!source.defaults.empty()) rows.emplace_back("defaults", "data: " + source.defaults);
  rows.emplace_back("to begin", fmt::format("longbow init {}", source.name));
  fmt::print("{}\nOptions\n", two_columns(rows));
  print_options(source);
  return 0;
}

int make(const DataCommand& command) {
  std::error_code unknown;  // what is no folder is for make_data to refuse
  if (!command.force && fs::is_directory(command.folder, unknown) &&
      !fs::is_empty(command.folder, unknown))
    throw UserError(Place{command.folder, 0}, "is not empty",
                    "give another folder with --out, or --force to write into it");
  const InterruptionGuard guard;
  show_work(ProgressStyle::automatic);
  Node options = Node::map();
  for (const auto& assignment : command.set) assign(options, assignment);
  if (command.count > 0) {  // the shares of the official splits: 96 %, 2 %, 2 %
    const int64_t held = std::max<int64_t>(command.count / 50, 1);
    options["train"] = Node::integer(std::max<int64_t>(command.count - 2 * held, 1));
    options["valid"] = Node::integer(held);
    options["test"] = Node::integer(held);
  }
  make_data(command.name, command.folder, options, static_cast<uint64_t>(command.seed));
  for (const auto& line : verify(command.folder)) info(line);
  fmt::print("{}\n", command.folder);
  return 0;
}

int stats(const DataCommand& command) {
  const auto manifest = find_manifest(command.folder);
  if (!manifest)
    throw UserError(Place{command.folder, 0}, "has no manifest.json",
                    "make it with `longbow data make`");
  fmt::print("{}", to_yaml(written(*manifest)));
  return 0;
}

double days_since(fs::file_time_type time) {
  using Days = std::chrono::duration<double, std::ratio<86400>>;
  return std::max(0.0, Days(fs::file_time_type::clock::now() - time).count());
}

std::string ago(double days) {
  if (days < 1) return "today";
  return days < 2 ? "a day ago" : fmt::format("{:.0f} days ago", std::floor(days));
}

int cache(const DataCommand& command) {
  const auto folder = cache_folder(command.folder);
  const auto remove = [&](const std::string& name) {
    remove_cached_data(folder, name);
    info(fmt::format("removed {}", name));
  };
  for (const auto& name : command.remove) remove(name);
  NamedRows rows;
  double bytes = 0;
  for (const auto& entry : cached_data(folder)) {
    const auto days = days_since(entry.used);
    if (command.unused >= 0 && days >= command.unused) {
      remove(entry.name);
      continue;
    }
    bytes += static_cast<double>(entry.bytes);
    rows.emplace_back(entry.name,
                      fmt::format("{}, {} {}", human_bytes(static_cast<double>(entry.bytes)),
                                  entry.unfinished ? "unfinished, written" : "used", ago(days)));
  }
  fmt::print("{}{}: {} in {} {}\n", two_columns(rows), folder, human_bytes(bytes), rows.size(),
             rows.size() == 1 ? "entry" : "entries");
  return 0;
}

}  // namespace

int run(const DataCommand& command) {
  if (command.action == "list")
    return command.name.empty() ? list_all() : list_one(find_data_source(command.name));
  if (command.action == "make") return make(command);
  if (command.action == "stats") return stats(command);
  if (command.action == "cache") return cache(command);
  for (const auto& line : verify(command.folder)) fmt::print("{}\n", line);
  return 0;
}

}  // namespace longbow::cli
