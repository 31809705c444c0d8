#pragma once
#include <string>
#include <vector>

#include "longbow/report/table/record.h"

namespace longbow::reporting {

// What a record is about: "longbow arena", "listops, text", "5 mechanisms", "3 seeds", "2 of 30
// cells pending", "2026-11-15".
std::vector<std::string> heading_parts(const Record& record);
std::string heading_line(const Record& record);  // with dots between them

}  // namespace longbow::reporting
