#include "longbow/core/file_name.h"

namespace longbow {

bool is_file_name(std::string_view name) {
  using namespace std::literals;
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of("/\\\0"sv) == std::string_view::npos;
}

}  // namespace longbow
