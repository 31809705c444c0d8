#pragma once
// All tokens that a text begins with, in one walk over its bytes.
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace longbow {

class TokenTrie {
 public:
  TokenTrie() = default;
  explicit TokenTrie(std::vector<std::pair<std::string_view, int32_t>> tokens);

  // take(bytes, id) for each token that is a beginning of the text, shortest first. An empty token
  // is never found.
  template <class Take>
  void each_prefix(std::string_view text, const Take& take) const {
    if (nodes_.empty()) return;
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node == 0) return;
      if (nodes_[node].id >= 0) take(i + 1, nodes_[node].id);
    }
  }

 private:
  struct TrieNode {
    uint32_t first_child = 0;
    int32_t id = -1;
    uint16_t children = 0;
    unsigned char label = 0;
  };
  uint32_t child(uint32_t node, unsigned char label) const {
    if (node == 0) return roots_[label];
    const auto& parent = nodes_[node];
    // Children are sorted, and mostly few.
    uint32_t low = parent.first_child, high = low + parent.children;
    while (low < high) {
      const uint32_t middle = (low + high) / 2;
      if (nodes_[middle].label < label)
        low = middle + 1;
      else
        high = middle;
    }
    const bool is_found = low < parent.first_child + parent.children && nodes_[low].label == label;
    return is_found ? low : 0;
  }

  std::vector<TrieNode> nodes_;
  std::array<uint32_t, 256> roots_{};
};

}  // namespace longbow
