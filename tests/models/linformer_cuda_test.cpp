#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/tensors/meter.h"
#include "tests/models/linformer_readme.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(LinformerCuda, TheReadmeExampleHasTheSameGradientsAtEveryLevel) {
  const at::Device device("cuda:0");
  const auto x = Random::from_seed(5, 0, device).normal({1, 262144, 64}, "x");
  const auto direction = Random::from_seed(6, 0, device).normal({1, 262144, 64}, "y");
  const LinformerInputs inputs = {.random = Random::from_seed(8, 0, device)};
  Tensors want;
  int64_t before = 0;
  for (const auto level : {CheckpointLevel::C0, CheckpointLevel::C1, CheckpointLevel::C2}) {
    auto config = readme_example(262144);
    config.checkpoint_level = level;
    Linformer net(config, /*seed=*/3);
    net.to(device);
    const auto step = [&] { net(x, inputs).backward(direction); };
    const auto usage = measure(step, device);
    Tensors found;
    for (const auto& item : net.named_parameters()) found[item.key()] = item.value().grad().clone();
    if (level == CheckpointLevel::C0) want = found;
    for (const auto& [name, gradient] : want)
      EXPECT_NEAR_TENSOR(found.at(name), gradient, (Tolerance{1e-7, 1e-3})) << name;
    EXPECT_TRUE(before == 0 || usage.peak_bytes <= before);
    before = usage.peak_bytes;
  }
}

}  // namespace
}  // namespace longbow
