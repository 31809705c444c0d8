#pragma once
#include <string>

#include "longbow/report/table/record.h"

namespace longbow {

std::string to_html(const Record& record);  // one self-contained page
std::string to_markdown(const Record& record);
std::string to_csv(
    const Record& record);  // a row per mechanism and task, or per benchmark; full precision
std::string console_table(const Record& record);

}  // namespace longbow
