#include "longbow/text/trainers/piece_trie.h"

#include <algorithm>
#include <numeric>

namespace longbow {

PieceTrie::PieceTrie(const std::vector<std::string_view>& pieces) {
  std::vector<uint32_t> sorted(pieces.size());
  std::iota(sorted.begin(), sorted.end(), 0u);
  std::sort(sorted.begin(), sorted.end(),
            [&](uint32_t a, uint32_t b) { return pieces[a] < pieces[b]; });
  // Breadth first: the pieces below a node are a range of the sorted ones.
  struct Range {
    uint32_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, static_cast<uint32_t>(sorted.size()), 0}};
  nodes_.emplace_back();
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    auto [at, end, depth] = ranges[node];
    while (at < end && pieces[sorted[at]].size() == depth)
      nodes_[node].piece = static_cast<int32_t>(sorted[at++]);
    nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
    while (at < end) {
      const char byte = pieces[sorted[at]][depth];
      const uint32_t begin = at;
      while (at < end && pieces[sorted[at]][depth] == byte) ++at;
      nodes_.push_back({.byte = static_cast<unsigned char>(byte)});
      ranges.push_back({begin, at, depth + 1});
      ++nodes_[node].children;
    }
  }
  for (uint32_t i = 0; i < nodes_[0].children; ++i) {
    const uint32_t node = nodes_[0].first_child + i;
    root_[nodes_[node].byte] = node;
  }
}

}  // namespace longbow
