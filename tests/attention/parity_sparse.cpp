// The recorded masks are compared with what a query can read: those inputs that move its output.
#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

constexpr int64_t kWidth = 6;

// [H, N, N] of 0 and 1.
Tensor read_pairs(int64_t n, int64_t heads, const std::string& options, int64_t layer) {
  Layer mixer("sparse",
              {.shape = {.width = heads * kWidth, .heads = heads, .max_length = n},
               .layer = layer,
               .layers = 2},
              options);
  // Each head reads its own channels, all of them.
  const auto eye = at::eye(heads * kWidth, at::kDouble);
  for (const auto* name : {"query", "key", "value", "output"})
    mixer.set(std::string(name) + ".weight", eye);
  auto pairs = at::zeros({heads, n, n}, at::kByte);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t h = 0; h < heads; ++h) {
      const auto x = random_normal({1, n, heads * kWidth}, 7).requires_grad_();
      Context context = {.mask = {.causal = true}};
      mixer(x, context)[0][i].narrow(0, h * kWidth, kWidth).sum().backward();
      pairs[h][i] = x.grad()[0].abs().amax(1).gt(0).to(at::kByte);
    }
  return pairs;
}

void check_masks(const Case& c) {
  for (const auto& [name, mask] : c.tensors) {
    const auto* found = c.config.find(name);
    // Not patterns of tokens in their order: a permutation, and masks of blocks or after it.
    const bool other =
        name == "all" || name == "local_blocks_l6" || name == "strided_on_permuted_sequence";
    if (!found || other) continue;
    const auto integer = [&](const char* key, int64_t fallback) {
      const auto* value = found->find(key);
      return value ? as_integer(*value, key) : fallback;
    };
    const auto l = std::to_string(integer("l", 0));
    const int64_t n = integer("n", 0), heads = integer("heads", 1);
    const bool far = name.rfind("strided", 0) == 0;
    if (name == "local" || far) {
      const auto pairs = read_pairs(n, 1, "{combine: layers, stride: " + l + "}", far);
      EXPECT_TRUE(at::equal(pairs[0], mask.to(at::kByte))) << name;
    } else {
      const auto pairs = read_pairs(n, heads,
                                    "{pattern: fixed, stride: " + l +
                                        ", summary: " + std::to_string(integer("c", 0)) +
                                        ", slices: " + std::to_string(integer("slices", 1)) + "}",
                                    0);
      EXPECT_TRUE(at::equal(pairs, mask.to(at::kByte))) << name;
    }
  }
}

const Reader sparse("sparse-transformer-masks", {check_masks});

}  // namespace
}  // namespace longbow::parity
