#pragma once
#include <cstdint>
#include <vector>

namespace longbow {

// torch.randperm(count) of a CPU generator with this seed: splits of public code are such
// permutations. `count` is below 2^27, from where on LibTorch draws otherwise.
std::vector<int64_t> torch_permutation(int64_t count, uint32_t seed);

}  // namespace longbow
