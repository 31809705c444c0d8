#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/rms_gate.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

const at::Device kDevice("cuda:0");

// y, dx, dgain and dgate.
std::vector<Tensor> results(int64_t rows, int64_t width, bool gated, at::ScalarType type,
                            at::ScalarType computed, at::Device device) {
  const auto drawn = [&](at::IntArrayRef shape, uint64_t seed) {
    return random_normal(shape, seed).to(at::kFloat).to(device, computed).requires_grad_();
  };
  const auto x = drawn({rows, width}, 1), gain = drawn({width}, 2), gate = drawn({width}, 3);
  const auto y = rms_gate(x, gain, gated ? gate : Tensor(), 1e-3, type);
  std::vector<Tensor> leaves = {x, gain};
  if (gated) leaves.push_back(gate);
  auto found = torch::autograd::grad(
      {y}, leaves, {random_normal({rows, width}, 4).to(at::kBFloat16).to(device, type)});
  found.insert(found.begin(), y.detach());
  for (auto& one : found) one = one.cpu().to(at::kDouble);
  return found;
}

TEST(RmsGateCuda, IsTheFormula) {
  for (const auto& [type, error] :
       {std::pair{at::kBFloat16, 0x1p-8}, {at::kHalf, 0x1p-10}, {at::kFloat, 1e-5}})
    for (const bool gated : {false, true})
      for (const auto& [rows, width] :
           {std::pair{1, 4}, {9, 128}, {70, 132}, {5000, 256}, {33, 512}, {20, 1024}, {7, 6}}) {
        SCOPED_TRACE(c10::str(rows, " x ", width, gated ? ", gated " : " ", type));
        const auto got = results(rows, width, gated, type, at::kFloat, kDevice),
                   want = results(rows, width, gated, at::kDouble, at::kDouble, at::kCPU);
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_LE((got[i] - want[i]).norm().item<double>(),
                    error * want[i].norm().item<double>())
              << i;  // false for NaN
      }
}

}  // namespace
}  // namespace longbow
