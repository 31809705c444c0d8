#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "longbow/train/run/events.h"

namespace longbow {

// The numbers of a run folder, step by step: metrics.jsonl and, if wanted, an event file for
// TensorBoard. What stands behind the last step is cut, since it will be written again.
class RunLog {
 public:
  RunLog(const std::string& folder, int64_t last_step, bool events);
  void write(const std::string& split, int64_t step,
             const std::vector<std::pair<std::string, double>>& values);
  void text(const std::string& tag, const std::string& text);  // for TensorBoard only

 private:
  std::string metrics_;
  std::unique_ptr<EventFile> events_;
};

}  // namespace longbow
