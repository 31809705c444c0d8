#pragma once
// Lines of text as a task reads them.
#include "longbow/tasks/task.h"

namespace longbow::predict {

struct Line {
  std::string text;
  Place place;  // for messages
};

// Each line as a sample without a target. UserError at a line that is empty, unknown, too long, or
// not a pair where pairs are read.
std::shared_ptr<const Dataset> inputs_of(const Task& task, const std::vector<Line>& lines);

}  // namespace longbow::predict
