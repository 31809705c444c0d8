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

bool stays(const Node& line, int64_t last_step) {
  const auto *split = line.find("split"), *step = line.find("step");
  if (!split || !step) throw UserError("split or step is missing");
  return split->text != "test" && as_integer(*step, "step") <= last_step;
}

// What came before the last step stays as it is.
void cut_metrics(const std::string& file, int64_t last_step) {
  if (!fs::exists(file)) return;
  std::istringstream lines(read_file(file));
  std::string kept;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (lines.eof()) break;  // a process was killed while it wrote this one
    try {
      if (stays(parse_json(line, file), last_step)) kept += line + "\n";
    } catch (const UserError&) {
      warn(Place{file, number}.str() + ": is not a line of metrics and is ignored");
    }
  }
  write_file(file, kept);
}

}  // namespace

RunLog::RunLog(const std::string& folder, int64_t last_step, bool events)
    : metrics_(RunFolder(folder).metrics()) {
  cut_metrics(metrics_, last_step);
  if (events) events_ = std::make_unique<EventFile>(folder, last_step);
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
