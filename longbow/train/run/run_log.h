#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "longbow/train/run/events.h"

namespace longbow {

// The numbers of a run folder, step by step: metrics.jsonl and, if wanted, an event file for
// TensorBoard. What the start does not keep is cut.
class RunLog {
 public:
  RunLog(const std::string& folder, const LogStart& start, bool events);
  void write(const std::string& split, int64_t step,
             const std::vector<std::pair<std::string, double>>& values);
  void text(const std::string& tag, const std::string& text);  // for TensorBoard only

 private:
  std::string metrics_;
  std::unique_ptr<EventFile> events_;
};

}  // namespace longbow
