#pragma once
#include <string>

#include "longbow/core/seed.h"

namespace longbow {

// One seeded accident: a cut, a flipped, lost or doubled byte, a byte from elsewhere, a lost
// stretch.
inline std::string mutated(std::string text, Stream stream) {
  auto at = static_cast<size_t>(stream.below(std::ssize(text)));
  auto other = static_cast<size_t>(stream.below(std::ssize(text)));
  switch (stream.below(6)) {
    case 0:
      text.resize(at);
      break;
    case 1:
      text[at] = static_cast<char>(text[at] ^ (1 << stream.below(8)));
      break;
    case 2:
      text.erase(at, 1);
      break;
    case 3:
      text.insert(at, 1, text[at]);
      break;
    case 4:
      text[at] = text[other];
      break;
    default:
      text.erase(at, static_cast<size_t>(stream.below(200)));
      break;
  }
  return text;
}

}  // namespace longbow
