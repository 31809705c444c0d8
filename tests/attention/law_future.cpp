// Under a causal mask no output knows what comes after it, in any precision.
#include <ATen/ATen.h>

#include "tests/attention/laws.h"

namespace longbow {
namespace {

std::string sees_the_future(const Promises& p) {
  return p.future == Future::refused ? "is not causal" : "";
}

// What rounding may move: the future is up to five times as large as the past, and a transform over
// all tokens rounds relative to the largest.
double rounding(at::ScalarType type) {
  return type == at::kDouble ? 1e-10 : 32 * unit_roundoff(type);
}

void compare_futures(const Subject& subject, at::ScalarType type, at::Device device,
                     Findings& findings) {
  constexpr int64_t kTokens = 70;
  const double allowed = subject.promises.future == Future::rounded ? rounding(type) : 0;
  const auto built = build(subject, {.type = type, .device = device});
  Choices choices;
  const auto run = [&](const Tensor& x) {
    Context context = {.mask = {.causal = true}, .random = Random::from_seed(1, 0, device)};
    if (subject.promises.future == Future::frozen) context.choices = &choices;
    return (*built.mixer)(x, context);
  };
  choices.mode = Choices::Mode::record;
  const auto x = built.random({2, kTokens, 24}, 1).to(type).requires_grad_();
  const auto y = run(x);
  choices.mode = Choices::Mode::replay;
  for (const int64_t seen : {1, 5, 32, 33, 63, 64, 69}) {
    const auto what = std::string(c10::toString(type)) + ", " + std::to_string(seen) + " tokens";
    auto other = x.detach().clone();
    other.narrow(1, seen, kTokens - seen).copy_(5 * random_normal({2, kTokens - seen, 24}, 2));
    findings.near(what + " and another future", run(other).narrow(1, 0, seen), y.narrow(1, 0, seen),
                  {.absolute = allowed});
    const auto last = run(x).narrow(1, seen - 1, 1);
    const auto slope = gradients(last, random_normal(last.sizes(), 3), {x})[0];
    findings.zero(what + ", gradient to the future", slope.narrow(1, seen, kTokens - seen),
                  allowed);
  }
}

testing::AssertionResult the_future_is_invisible(const Subject& subject, at::Device device) {
  Findings findings;
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16})
    compare_futures(subject, type, device, findings);
  return findings.verdict();
}

}  // namespace

const Law kTheFutureIsInvisible = {"the future is invisible", sees_the_future,
                                   the_future_is_invisible};

}  // namespace longbow
