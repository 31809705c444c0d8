#include "longbow/text/models/token_trie.h"

#include <algorithm>

namespace longbow {

// Level by level, so that the children of a node lie side by side. Each node of the queue stands
// for a range of the sorted tokens that share their first `depth` bytes.
TokenTrie::TokenTrie(std::vector<std::pair<std::string_view, int32_t>> tokens) {
  std::sort(tokens.begin(), tokens.end());
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, tokens.size(), 0}};
  nodes_.emplace_back();
  for (size_t node = 0; node < ranges.size(); ++node) {
    auto [begin, end, depth] = ranges[node];
    for (; begin < end && tokens[begin].first.size() == depth; ++begin)
      nodes_[node].id = tokens[begin].second;
    nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
    while (begin < end) {
      const char label = tokens[begin].first[depth];
      size_t next = begin;
      while (next < end && tokens[next].first[depth] == label) ++next;
      nodes_[node].children++;
      nodes_.push_back({0, -1, 0, static_cast<unsigned char>(label)});
      ranges.push_back({begin, next, depth + 1});
      begin = next;
    }
  }
  for (uint32_t i = 0; i < nodes_[0].children; ++i) {
    const uint32_t node = nodes_[0].first_child + i;
    roots_[nodes_[node].label] = node;
  }
}

}  // namespace longbow
