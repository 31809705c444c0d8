#include "longbow/data/readers/torch_permutation.h"

#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>

namespace longbow {

std::vector<int64_t> torch_permutation(int64_t count, uint64_t seed) {
  constexpr int64_t kMost = UINT32_MAX / 20;  // torch draws 64 bits from here on
  if (count < 0 || count >= kMost) throw std::invalid_argument("torch_permutation: too many");
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::mt19937 bits(static_cast<uint32_t>(seed));
  for (int64_t i = 0; i + 1 < count; ++i) {
    const auto other = i + static_cast<int64_t>(bits()) % (count - i);
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(other)]);
  }
  return order;
}

}  // namespace longbow
