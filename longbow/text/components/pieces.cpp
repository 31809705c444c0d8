#include "longbow/text/components/pieces.h"

#include <algorithm>

namespace longbow {

void DelimiterSplit::merge(DelimiterBehavior behavior) {
  using enum DelimiterBehavior;
  if (behavior == removed || behavior == isolated) return;
  const bool is_backward = behavior == merged_with_next;
  if (is_backward) std::reverse(stretches_.begin(), stretches_.end());
  size_t count = 0;
  bool was_delimiter = false;
  for (const auto next : stretches_) {
    const bool joins = behavior == contiguous ? next.is_delimiter == was_delimiter
                                              : next.is_delimiter && !was_delimiter;
    was_delimiter = next.is_delimiter;
    if (joins && count > 0) {
      auto& last = stretches_[count - 1];
      last.begin = std::min(last.begin, next.begin);
      last.end = std::max(last.end, next.end);
    } else {
      stretches_[count++] = next;
    }
  }
  stretches_.resize(count);
  if (is_backward) std::reverse(stretches_.begin(), stretches_.end());
}

}  // namespace longbow
