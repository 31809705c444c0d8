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

std::vector<Mask> masks(const Promises& promises, const Mask& mode) {
  if (promises.padding == Padding::refused) return {mode};
  return {mode, right_padded(mode, {65, 20}, 65), ragged(mode, some_holes(2, 65, 1))};
}

testing::AssertionResult the_gpu_agrees(const Subject& subject, at::Device device) {
  Findings findings;
  const auto here = build(subject), there = build(subject, {.device = device});
  for (const auto& mode : modes(subject.promises))
    for (const auto& mask : masks(subject.promises, mode)) {
      const auto x = random_normal({2, 65, 24}, 2).requires_grad_(),
                 weights = random_normal(x.sizes(), 3);
      const auto x_there = x.detach().to(device).requires_grad_();
      const auto y = here(x, mask), y_there = there(x_there, mask);
      findings.near(text_of(mode), y_there, y, tolerance(at::kDouble));
      const auto want = gradients(y, weights, here.leaves(x));
      const auto got = gradients(y_there, weights, there.leaves(x_there));
      for (size_t i = 0; i < want.size(); ++i)
        findings.near(text_of(mode) + ", gradient " + std::to_string(i), got[i], want[i],
                      {1e-8, 1e-8});
    }
  return findings.verdict();
}

// A step of training with dropout, forward and backward, captured on a side stream and replayed on
// inputs and a random key that were copied in afterwards.
void replay(const Subject& subject, const Build& how, Findings& findings) {
  const auto built = build(subject, how);
  built.mixer->train(how.dropout > 0);
  // The two runs add up in another order where sums are made by atomic additions.
  const Tolerance allowed = how.type == at::kFloat ? Tolerance{1e-5, 1e-5} : tolerance(how.type);
  for (const auto& mode : modes(subject.promises))
    for (const auto& mask : masks(subject.promises, mode)) {
      const auto fixed = moved(mask, how.device);
      const auto weights = built.random({2, 65, 24}, 4).to(how.type);
      auto x = built.random(weights.sizes(), 5).to(how.type).requires_grad_();
      const auto random = Random::from_seed(5, 0, how.device);
      const auto step = [&] {
        Context context = {.mask = fixed, .random = random};
        const auto y = (*built.mixer)(x, context);
        auto results = gradients(y, weights, built.leaves(x));
        results.insert(results.begin(), y);
        return results;
      };
      at::cuda::CUDAGraph graph;
      std::vector<Tensor> captured;
      {
        const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
        (void)step();
        graph.capture_begin();
        captured = step();
        graph.capture_end();
      }
      c10::cuda::device_synchronize();
      x.detach().copy_(random_normal(x.sizes(), 6).to(how.type));
      random.key.copy_(Random::from_seed(5, 1).key);
      graph.replay();
      const auto eager = step();
      const auto what = text_of(mode) + ", " + c10::toString(how.type) +
                        (how.dropout > 0 ? ", in training" : "") + ", replayed";
      for (size_t i = 0; i < eager.size(); ++i)
        findings.near(what + (i == 0 ? "" : ", gradient " + std::to_string(i - 1)), captured[i],
                      eager[i], allowed);
    }
}

testing::AssertionResult a_captured_graph_replays(const Subject& subject, at::Device device) {
  Findings findings;
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const double rate : {0.0, 0.3})
      replay(subject, {.dropout = rate, .type = type, .device = device}, findings);
  return findings.verdict();
}

}  // namespace

const Law kTheGpuAgrees = {"the GPU agrees", nobody, the_gpu_agrees};
const Law kACapturedGraphReplays = {"a captured graph replays", nobody, a_captured_graph_replays};

}  // namespace longbow
