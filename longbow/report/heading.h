#pragma once
#include <string>

#include "longbow/report/record.h"

namespace longbow::reporting {

// What a record is about, in one line: "longbow arena · listops, text · 5 mechanisms · 3 seeds · 2
// of 30 cells pending · 2026-11-15".
std::string heading_line(const Record& record);

}  // namespace longbow::reporting
