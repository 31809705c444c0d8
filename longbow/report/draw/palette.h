#pragma once
#include <map>
#include <string>
#include <vector>

namespace longbow::reporting {

inline constexpr int kColours = 8;

// How a mechanism is drawn in every figure of a page. Colours are the page's --c0 … --c7; fused
// softmax has the colour of the text and a bold line.
struct Look {
  std::string colour;  // a CSS value
  std::string dash;    // of a line; empty: solid
  bool bold = false;
};

// Each name prefers the colour its spelling hashes to and takes the next free one when that is
// gone, so a mechanism keeps its colour from page to page wherever possible. The order of the names
// does not matter.
std::map<std::string, Look> palette(std::vector<std::string> names);

}  // namespace longbow::reporting
