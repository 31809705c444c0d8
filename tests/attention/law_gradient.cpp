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
  const auto x = built.random({2, 11, 24}, 1).requires_grad_();
  Choices choices = {.mode = Choices::Mode::record};
  const auto run = [&] {
    Context context = {.mask = moved(mask, built.device),
                       .memory = memory,
                       .random = Random::from_seed(1, 0, built.device),
                       .choices = &choices};
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

testing::AssertionResult gradients_are_those_of_differences(const Subject& subject,
                                                            at::Device device) {
  Findings findings;
  const auto built = build(subject, {.device = device});
  for (const auto& mode : modes(subject.promises)) {
    check_slopes(built, mode, {}, text_of(mode), findings);
    if (subject.promises.padding != Padding::refused)
      check_slopes(built, right_padded(mode, {11, 4}, 11), {}, text_of(mode) + ", padded",
                   findings);
    if (!subject.promises.cross) continue;
    const auto memory = built.random({2, 7, 20}, 2).requires_grad_();
    check_slopes(build(subject, {.cross = true, .device = device}), mode, memory,
                 text_of(mode) + ", with a memory", findings);
  }
  return findings.verdict();
}

// The second run computes the same, up to the order of sums: additions may be atomic, and a product
// of a batch may take another path where no gradient is wanted. float64 shows whether the values
// are the same numbers.
void compare_recomputation(const Subject& subject, const Build& how, Findings& findings) {
  const auto built = build(subject, how);
  built.mixer->train();
  std::vector<Tensor> parameters;
  for (const auto& leaf : built.parameters()) parameters.push_back(leaf.tensor);
  const Body body = [&](const Tensor& x, Context& context) { return (*built.mixer)(x, context); };
  for (const auto& mode : modes(subject.promises)) {
    const auto what = text_of(mode) + ", " + c10::toString(how.type);
    const auto x = built.random({2, 17, 24}, 3).to(how.type).requires_grad_(),
               weights = built.random(x.sizes(), 4);
    auto leaves = parameters;
    leaves.push_back(x);
    const auto run = [&](bool again) {
      Context context = {.mask = mode, .random = Random::from_seed(6, 0, how.device)};
      return again ? recomputed(body, x, context, parameters) : body(x, context);
    };
    const auto plain = run(false), twice = run(true);
    const auto compare = [&](const std::string& part, const Tensor& got, const Tensor& want,
                             double roundings) {
      const double scale = want.numel() > 0 ? want.abs().max().item<double>() : 0;
      findings.near(part, got, want, {.absolute = roundings * unit_roundoff(how.type) * scale});
    };
    compare(what, twice, plain, how.type == at::kDouble ? 0 : 16);
    const auto want = gradients(plain, weights, leaves), got = gradients(twice, weights, leaves);
    for (size_t i = 0; i < leaves.size(); ++i)
      compare(what + ", gradient " + std::to_string(i), got[i], want[i], 16);
  }
}

testing::AssertionResult recomputation_gives_the_same_gradients(const Subject& subject,
                                                                at::Device device) {
  Findings findings;
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf})
    compare_recomputation(subject, {.dropout = 0.3, .type = type, .device = device}, findings);
  return findings.verdict();
}

}  // namespace

const Law kGradientsAreThoseOfDifferences = {"gradients are those of differences", nobody,
                                             gradients_are_those_of_differences};
const Law kRecomputationGivesTheSameGradients = {"recomputation gives the same gradients", nobody,
                                                 recomputation_gives_the_same_gradients};

}  // namespace longbow
