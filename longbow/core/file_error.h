#pragma once
#include <string>

namespace longbow {

// "path: what; <reason>" for an errno: UserError where another path or a permission helps, and
// std::runtime_error where the machine is at fault, as with a disk that is full.
[[noreturn]] void fail_at(const std::string& path, const std::string& what, int reason);

}  // namespace longbow
