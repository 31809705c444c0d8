// Gradients: against differences, and when activations are computed a second time.
#include <ATen/ATen.h>

#include "longbow/nn/contract/recompute.h"
#include "tests/attention/laws.h"

namespace longbow {
namespace {

std::string nobody(const Promises&) {
  return "";
}

// The choices of the first run are kept, because a difference must not cross from one choice to
// another.
void check_slopes(const Built& built, const Mask& mask, const Tensor& memory,
                  const std::string& what, Findings& findings) {
  const auto x = random_normal({2, 11, 24}, 1).requires_grad_();
  Choices choices = {.mode = Choices::Mode::record};
  const auto run = [&] {
    Context context = {
        .mask = mask, .memory = memory, .random = Random::from_seed(1), .choices = &choices};
    return (*built.mixer)(x, context);
  };
  (void)run();
  choices.mode = Choices::Mode::replay;
  auto leaves = built.parameters();
  leaves.push_back({"x", x});
  if (memory.defined()) leaves.push_back({"memory", memory});
  const auto result = gradcheck(run, leaves);
  findings.that(result, what + ": " + result.message());
}

testing::AssertionResult gradients_are_those_of_differences(const Subject& subject) {
  Findings findings;
  const auto built = build(subject);
  for (const auto& mode : modes(subject.promises)) {
    check_slopes(built, mode, {}, text_of(mode), findings);
    if (subject.promises.padding != Padding::refused)
      check_slopes(built, right_padded(mode, {11, 4}, 11), {}, text_of(mode) + ", padded",
                   findings);
    if (!subject.promises.cross) continue;
    const auto memory = random_normal({2, 7, 20}, 2).requires_grad_();
    check_slopes(build(subject, {.cross = true}), mode, memory, text_of(mode) + ", with a memory",
                 findings);
  }
  return findings.verdict();
}

testing::AssertionResult recomputation_gives_the_same_gradients(const Subject& subject) {
  Findings findings;
  const auto built = build(subject, {.dropout = 0.3});
  built.mixer->train();
  std::vector<Tensor> parameters;
  for (const auto& leaf : built.parameters()) parameters.push_back(leaf.tensor);
  const Body body = [&](const Tensor& x, Context& context) { return (*built.mixer)(x, context); };
  for (const auto& mode : modes(subject.promises)) {
    const auto x = random_normal({2, 17, 24}, 3).requires_grad_(),
               weights = random_normal(x.sizes(), 4);
    auto leaves = parameters;
    leaves.push_back(x);
    const auto run = [&](bool again) {
      Context context = {.mask = mode, .random = Random::from_seed(6)};
      return again ? recomputed(body, x, context, parameters) : body(x, context);
    };
    const auto plain = run(false), twice = run(true);
    findings.equal(text_of(mode), twice, plain);
    const auto want = gradients(plain, weights, leaves), got = gradients(twice, weights, leaves);
    for (size_t i = 0; i < leaves.size(); ++i)
      findings.near(text_of(mode) + ", gradient " + std::to_string(i), got[i], want[i],
                    {1e-12, 1e-12});
  }
  return findings.verdict();
}

}  // namespace

const Law kGradientsAreThoseOfDifferences = {"gradients are those of differences", nobody,
                                             gradients_are_those_of_differences};
const Law kRecomputationGivesTheSameGradients = {"recomputation gives the same gradients", nobody,
                                                 recomputation_gives_the_same_gradients};

}  // namespace longbow
