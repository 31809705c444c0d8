#include "longbow/core/listing.h"

#include <algorithm>

#include "longbow/core/error.h"

namespace longbow {

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kMost) text += " and " + std::to_string(names.size() - kMost) + " more";
  return text;
}

std::string shortened(const std::string& text) {
  constexpr size_t kMost = 60;
  return text.size() > kMost ? quote(text) : text;
}

}  // namespace longbow
