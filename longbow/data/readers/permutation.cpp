#include "longbow/data/readers/permutation.h"

#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>

namespace longbow {

std::vector<int64_t> torch_permutation(int64_t count, uint32_t seed) {
  if (count >= int64_t{1} << 27) throw std::invalid_argument("torch_permutation: too many");
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(seed);
  for (size_t i = 0; i + 1 < order.size(); ++i)
    std::swap(order[i], order[i + random() % (order.size() - i)]);
  return order;
}

}  // namespace longbow
