#include "longbow/report/write/heading.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <set>

#include "longbow/report/table/bench_grid.h"
#include "longbow/report/table/table.h"

namespace longbow::reporting {
namespace {

constexpr size_t kMostNames = 4;

// "listops, text", or "7 tasks" where they are many.
std::string named(const std::vector<std::string>& names, const std::string& what) {
  return names.size() > kMostNames ? fmt::format("{} {}", names.size(), what)
                                   : fmt::format("{}", fmt::join(names, ", "));
}

std::string counted(size_t count, const std::string& what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

void add_arena(const Record& record, std::vector<std::string>& parts) {
  std::set<std::string> mechanisms;
  std::set<int64_t> seeds;
  size_t cells = 0, pending = 0;
  for (auto& cell : record.cells) {
    if (is_for_comparison(cell.status)) continue;
    mechanisms.insert(cell.mechanism);
    seeds.insert(cell.seed);
    ++cells;
    pending += cell.status == "pending";
  }
  parts.push_back(named(summarize(record).tasks, "tasks"));
  parts.push_back(counted(mechanisms.size(), "mechanism"));
  if (seeds.size() > 1) parts.push_back(counted(seeds.size(), "seed"));
  if (pending > 0) parts.push_back(fmt::format("{} of {} cells pending", pending, cells));
}

void add_run(const Record& record, std::vector<std::string>& parts) {
  if (!record.cells.empty())
    parts.push_back(record.cells[0].mechanism + " on " + record.cells[0].task);
  else if (!record.curves.empty())
    parts.push_back(record.curves[0].label + " on " + record.curves[0].task);
}

void add_bench(const Record& record, std::vector<std::string>& parts) {
  auto modes = bench_modes(record);
  std::set<std::string> mechanisms;
  for (auto& row : record.benchmarks) mechanisms.insert(row.mechanism);
  parts.push_back(named(modes, "modes"));
  parts.push_back(counted(mechanisms.size(), "mechanism"));
}

}  // namespace

std::vector<std::string> heading_parts(const Record& record) {
  std::vector<std::string> parts = {record.kind.empty() ? "longbow" : "longbow " + record.kind};
  if (record.kind == "run")
    add_run(record, parts);
  else if (!record.cells.empty())
    add_arena(record, parts);
  if (!record.benchmarks.empty()) add_bench(record, parts);
  if (!record.date.empty()) parts.push_back(record.date);
  return parts;
}

std::string heading_line(const Record& record) {
  return fmt::format("{}", fmt::join(heading_parts(record), " · "));
}

}  // namespace longbow::reporting
