#pragma once
#include <string>

namespace longbow {

std::string version();   // "0.1.0"
std::string commit();    // short hash with "+changes" where there were any, or "unknown"
std::string compiler();  // "clang 14.0.6"
std::string machine();   // processor, cores, memory

}  // namespace longbow
