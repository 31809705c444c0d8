// The GPU computes what the CPU computes, and a captured graph replays what an eager call computes.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "tests/attention/laws.h"

namespace longbow {
namespace {

std::string nobody(const Promises&) {
  return "";
}

Built on_gpu(const Subject& subject, at::ScalarType type) {
  const auto built = build(subject, {.type = type});
  const at::NoGradGuard no_grad;
  for (const auto& leaves : {built.parameters(), built.buffers()})
    for (const auto& leaf : leaves) leaf.tensor.set_data(leaf.tensor.to(at::kCUDA));
  return built;
}

Mask moved(Mask mask) {
  if (mask.keep.defined()) mask.keep = mask.keep.to(at::kCUDA);
  return mask;
}

std::vector<Mask> masks(const Promises& promises, const Mask& mode) {
  if (promises.padding == Padding::refused) return {mode};
  return {mode, right_padded(mode, {65, 20}, 65), ragged(mode, some_holes(2, 65, 1))};
}

std::vector<Tensor> leaves_of(const Built& built, const Tensor& x) {
  std::vector<Tensor> leaves = {x};
  for (const auto& leaf : built.parameters()) leaves.push_back(leaf.tensor);
  return leaves;
}

testing::AssertionResult the_gpu_agrees(const Subject& subject) {
  Findings findings;
  const auto here = build(subject), there = on_gpu(subject, at::kDouble);
  for (const auto& mode : modes(subject.promises))
    for (const auto& mask : masks(subject.promises, mode)) {
      const auto x = random_normal({2, 65, 24}, 2).requires_grad_(),
                 weights = random_normal(x.sizes(), 3);
      const auto x_there = x.detach().to(at::kCUDA).requires_grad_();
      const auto y = here(x, mask), y_there = there(x_there, moved(mask));
      findings.near(text_of(mode), y_there, y, tolerance(at::kDouble));
      const auto want = gradients(y, weights, leaves_of(here, x));
      const auto got = gradients(y_there, weights.to(at::kCUDA), leaves_of(there, x_there));
      for (size_t i = 0; i < want.size(); ++i)
        findings.near(text_of(mode) + ", gradient " + std::to_string(i), got[i], want[i],
                      {1e-8, 1e-8});
    }
  return findings.verdict();
}

// Forward and backward on a side stream, replayed on inputs that were copied in afterwards.
void replay(const Subject& subject, at::ScalarType type, Findings& findings) {
  const auto built = on_gpu(subject, type);
  // The two runs add up in another order where sums are made by atomic additions.
  const Tolerance allowed = type == at::kFloat ? Tolerance{1e-5, 1e-5} : tolerance(type);
  for (const auto& mode : modes(subject.promises))
    for (const auto& mask : masks(subject.promises, mode)) {
      const auto fixed = moved(mask);
      const auto weights = random_normal({2, 65, 24}, 4).to(at::kCUDA, type);
      auto x = random_normal(weights.sizes(), 5).to(at::kCUDA, type).requires_grad_();
      const auto random = Random::from_seed(5, 0, at::kCUDA);
      const auto step = [&] {
        Context context = {.mask = fixed, .random = random};
        const auto y = (*built.mixer)(x, context);
        return std::pair{y, gradients(y, weights, {x})[0]};
      };
      at::cuda::CUDAGraph graph;
      std::pair<Tensor, Tensor> captured;
      {
        const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
        (void)step();
        graph.capture_begin();
        captured = step();
        graph.capture_end();
      }
      c10::cuda::device_synchronize();
      x.detach().copy_(random_normal(x.sizes(), 6).to(type));
      graph.replay();
      const auto eager = step();
      const auto what = text_of(mode) + ", " + c10::toString(type);
      findings.near(what + ", replayed", captured.first, eager.first, allowed);
      findings.near(what + ", replayed gradient", captured.second, eager.second, allowed);
    }
}

testing::AssertionResult a_captured_graph_replays(const Subject& subject) {
  Findings findings;
  for (const auto type : {at::kFloat, at::kBFloat16}) replay(subject, type, findings);
  return findings.verdict();
}

}  // namespace

const Law kTheGpuAgrees = {"the GPU agrees", nobody, the_gpu_agrees};
const Law kACapturedGraphReplays = {"a captured graph replays", nobody, a_captured_graph_replays};

}  // namespace longbow
