#include "longbow/train/run/run_log.h"

#include <cmath>
#include <filesystem>
#include <sstream>

#include "longbow/core/config.h"
#include "longbow/core/file.h"
#include "longbow/core/log.h"
#include "longbow/core/run_folder.h"

namespace fs = std::filesystem;

namespace longbow {
namespace {

bool stays(const Node& line, const LogStart& start) {
  const auto *split = line.find("split"), *step = line.find("step");
  if (!split || !step) throw UserError("split or step is missing");
  return start.keeps(split->text, as_integer(*step, "step"));
}

void cut_metrics(const std::string& file, const LogStart& start) {
  if (!fs::exists(file)) return;
  std::istringstream lines(read_file(file));
  std::string rest;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (lines.eof()) break;  // a process was killed while it wrote this one
    try {
      if (stays(parse_json(line, file), start)) rest += line + "\n";
    } catch (const UserError&) {
      warn(Place{file, number}.str() + ": is not a line of metrics and is ignored");
    }
  }
  write_file(file, rest);
}

}  // namespace

RunLog::RunLog(const std::string& folder, const LogStart& start, bool events)
    : metrics_(RunFolder(folder).metrics()) {
  cut_metrics(metrics_, start);
  if (events) events_ = std::make_unique<EventFile>(folder, start);
}

void RunLog::write(const std::string& split, int64_t step,
                   const std::vector<std::pair<std::string, double>>& values) {
  Node line = Node::map({{"step", Node::integer(step)}, {"split", Node::string(split)}});
  for (const auto& [name, value] : values)
    line[name] = std::isfinite(value) ? Node::number(value) : Node{};  // JSON has no infinity
  append_line(metrics_, to_json(line));
  if (!events_) return;
  std::vector<std::pair<std::string, double>> tagged;
  for (const auto& [name, value] : values) tagged.emplace_back(split + "/" + name, value);
  events_->scalars(step, tagged);
}

void RunLog::text(const std::string& tag, const std::string& text) {
  if (events_) events_->text(0, tag, text);
}

}  // namespace longbow
