#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longbow {

// Finds all pieces that a text begins with. Built once; each node keeps its children side by side.
class PieceTrie {
 public:
  explicit PieceTrie(const std::vector<std::string_view>& pieces);

  // Calls take(piece, bytes) for each piece at the beginning of the text, the shortest first.
  template <class Take>
  void each_prefix(std::string_view text, const Take& take) const {
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node == 0) return;
      if (nodes_[node].piece >= 0) take(static_cast<uint32_t>(nodes_[node].piece), i + 1);
    }
  }

 private:
  struct Node {
    uint32_t first_child = 0;
    int32_t piece = -1;
    uint16_t children = 0;
    unsigned char byte = 0;
  };
  uint32_t child(uint32_t node, unsigned char byte) const {  // 0: none
    if (node == 0) return root_[byte];
    const uint32_t first = nodes_[node].first_child, count = nodes_[node].children;
    for (uint32_t i = first; i < first + count; ++i)
      if (nodes_[i].byte >= byte) return nodes_[i].byte == byte ? i : 0;
    return 0;
  }

  std::vector<Node> nodes_;
  uint32_t root_[256] = {};
};

}  // namespace longbow
