#pragma once
#include <cstdint>
#include <vector>

namespace longbow {

// What torch.randperm(count, generator=torch.Generator().manual_seed(seed)) gives on a CPU, for
// splits that others have published by their seed.
std::vector<int64_t> torch_permutation(int64_t count, uint64_t seed);

}  // namespace longbow
