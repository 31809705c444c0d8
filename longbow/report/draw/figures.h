#pragma once
// The figures of a page as SVG; an empty string where there is nothing to draw.
#include <map>
#include <string>
#include <vector>

#include "longbow/report/draw/palette.h"
#include "longbow/report/draw/svg.h"
#include "longbow/report/table/record.h"
#include "longbow/report/table/table.h"

namespace longbow::reporting {

using Looks = std::map<std::string, Look>;
Looks looks_of(const Record& record);

// Score over speed; nothing for fewer than two mechanisms.
std::string score_figure(const Table& table, const std::string& task, const Looks& looks,
                         Width width = Width::wide);
std::string curve_figure(const Record& record, const std::string& task, const std::string& quantity,
                         const Looks& looks, Width width = Width::wide);
std::string time_figure(const Record& record, const std::string& mode, const Looks& looks,
                        Width width = Width::wide);
std::string memory_figure(const Record& record, const std::string& mode, const Looks& looks,
                          Width width = Width::wide);

// Names of what metrics.jsonl recorded for a task: loss first, then the others as they came.
std::vector<std::string> quantities(const Record& record, const std::string& task);
std::vector<std::string> curve_tasks(const Record& record);
std::string quantity_label(const std::string& quantity);  // "learning_rate" -> "learning rate"

}  // namespace longbow::reporting
