#include "longbow/corpus/readers/classes.h"

#include <algorithm>

#include "longbow/corpus/readers/number.h"

namespace longbow::corpus {

std::vector<std::string> ClassNames::sorted() const {
  std::vector<std::string> names(names_.begin(), names_.end());
  const auto value = [](const std::string& name) { return parse_number(name); };
  if (std::all_of(names.begin(), names.end(), value))
    std::stable_sort(names.begin(), names.end(), [&](const auto& left, const auto& right) {
      return *value(left) < *value(right);
    });
  return names;
}

}  // namespace longbow::corpus
