// Shapes, rows of a batch, order of tokens, chance, and memories of other shapes.
#include <ATen/ATen.h>

#include "tests/attention/laws.h"

namespace longbow {
namespace {

const Tolerance kClose = {1e-9, 1e-9};

std::string nobody(const Promises&) {
  return "";
}

testing::AssertionResult any_length_is_taken(const Subject& subject, at::Device device) {
  Findings findings;
  const auto built = build(subject, {.device = device});
  for (const auto& mode : modes(subject.promises))
    for (const int64_t n : {1, 2, 3, 7, 8, 9, 31, 63, 64, 65, 101, 127}) {
      const auto x = built.random({2, n, 24}, 1);
      const auto what = text_of(mode) + ", " + std::to_string(n) + " tokens";
      const auto y = built(x, mode);
      findings.that(y.sizes() == x.sizes(), what + ": another shape");
      findings.that(y.scalar_type() == x.scalar_type(), what + ": another type");
      findings.finite(what, y);
    }
  return findings.verdict();
}

testing::AssertionResult rows_of_a_batch_are_independent(const Subject& subject,
                                                         at::Device device) {
  Findings findings;
  const auto built = build(subject, {.device = device});
  for (const auto& mode : modes(subject.promises)) {
    const auto x = built.random({3, 21, 24}, 2).requires_grad_();
    const auto y = built(x, mode);
    for (int64_t b = 0; b < 3; ++b) {
      const auto row = text_of(mode) + ", row " + std::to_string(b);
      findings.near(row + " alone", y.narrow(0, b, 1), built(x.narrow(0, b, 1), mode), kClose);
    }
    auto others = x.detach().clone();
    others.narrow(0, 1, 2).add_(built.random({2, 21, 24}, 3), 10);
    findings.near(text_of(mode) + ", other rows changed", built(others, mode)[0], y[0], kClose);
    const auto slope = gradients(y.narrow(0, 0, 1), random_normal({1, 21, 24}, 4), {x})[0];
    findings.zero(text_of(mode) + ", gradient of row 0 to the others", slope.narrow(0, 1, 2));
  }
  return findings.verdict();
}

std::string is_positional(const Promises& p) {
  return p.positional ? "knows where tokens stand" : p.bidirectional ? "" : "is causal only";
}

testing::AssertionResult permuted_tokens_give_permuted_outputs(const Subject& subject,
                                                               at::Device device) {
  Findings findings;
  const auto built = build(subject, {.device = device});
  const auto order = random_normal({37}, 5).argsort().to(device);
  const auto x = built.random({2, 37, 24}, 6);
  findings.near("tokens", built(x.index_select(1, order)), built(x).index_select(1, order), kClose);
  if (subject.promises.cross) {
    const auto crossing = build(subject, {.cross = true, .device = device});
    const auto memory = built.random({2, 37, 20}, 7);
    findings.near("memory", crossing(x, {}, memory.index_select(1, order)), crossing(x, {}, memory),
                  kClose);
  }
  return findings.verdict();
}

// In evaluation the random key is there but may not matter; in training the same key gives the same
// values.
testing::AssertionResult evaluation_is_deterministic(const Subject& subject, at::Device device) {
  Findings findings;
  for (const auto& mode : modes(subject.promises)) {
    const auto built = build(subject, {.device = device});
    const auto x = built.random({2, 29, 24}, 8);
    const auto run = [&](uint64_t key) {
      Context context = {.mask = mode, .random = Random::from_seed(key, 0, device)};
      return (*built.mixer)(x, context);
    };
    const auto y = run(1);
    findings.equal(text_of(mode) + ", evaluated twice", run(1), y);
    findings.equal(text_of(mode) + ", evaluated with another key", run(2), y);
    findings.equal(text_of(mode) + ", built twice from one seed",
                   build(subject, {.device = device})(x, mode), y);
    if (!built.parameters().empty())
      findings.that(!build(subject, {.seed = 12, .device = device})(x, mode).equal(y),
                    "another seed builds the same module");
    const auto trained = [&](uint64_t key) {
      const auto training = build(subject, {.dropout = 0.3, .device = device});
      training.mixer->train();
      Context context = {.mask = mode, .random = Random::from_seed(key, 0, device)};
      return (*training.mixer)(x, context);
    };
    findings.equal(text_of(mode) + ", trained twice with one key", trained(3), trained(3));
    if (subject.options.find("dropout"))
      findings.that(!trained(3).equal(trained(4)),
                    text_of(mode) + ": another key drops the same elements");
  }
  return findings.verdict();
}

std::string reads_no_memory(const Promises& p) {
  return p.cross ? "" : "reads no memory";
}

testing::AssertionResult a_memory_may_have_another_length_and_width(const Subject& subject,
                                                                    at::Device device) {
  Findings findings;
  const auto built = build(subject, {.cross = true, .device = device});
  for (const auto& mode : modes(subject.promises))
    for (const auto& [n, m] :
         {std::pair<int64_t, int64_t>{9, 23}, {23, 9}, {1, 17}, {17, 1}, {16, 16}}) {
      const auto what =
          text_of(mode) + ", " + std::to_string(n) + " queries, " + std::to_string(m) + " keys";
      const auto x = built.random({2, n, 24}, 9), memory = built.random({2, m, 20}, 10);
      const auto y = built(x, mode, memory);
      findings.that(y.sizes() == x.sizes(), what + ": another shape");
      findings.finite(what, y);
      // Several other keys, because one may be out of the reach of a query that looks at a few.
      auto moved = at::zeros({n}, x.options());
      Tensor changed;
      for (uint64_t seed = 11; seed < 15; ++seed) {
        changed = memory.clone();
        changed.select(1, m - 1).copy_(3 * random_normal({2, 20}, seed));
        moved = moved.maximum((built(x, mode, changed) - y).abs().amax({0, 2}));
      }
      findings.that(moved[n - 1].item<double>() > 0,
                    what + ": the last query does not see the last key");
      if (mode.causal && n > 1)
        findings.zero(what + ", what the earlier queries see of the last key",
                      moved.narrow(0, 0, n - 1));
      auto keep = at::ones({2, m}, at::kBool);
      keep.select(1, m - 1).fill_(false);
      findings.near(what + ", last key hidden",
                    built(x, {.causal = mode.causal, .keep = keep}, changed),
                    built(x, {.causal = mode.causal, .keep = keep}, memory), kClose);
    }
  return findings.verdict();
}

std::string reads_a_memory(const Promises& p) {
  return p.cross ? "reads a memory" : "";
}

// In a call and when decoding starts.
testing::AssertionResult a_memory_that_is_not_read_is_refused(const Subject& subject,
                                                              at::Device device) {
  Findings findings;
  const auto built = build(subject, {.device = device});
  const auto x = built.random({2, 9, 24}, 17), memory = built.random({2, 7, 24}, 18);
  const auto refused = [&](const std::string& what, const std::function<void()>& call) {
    const auto error = error_of(call);
    findings.that(error.find(": cannot attend to a memory") != std::string::npos,
                  what + (error.empty() ? ": taken" : ": " + error));
  };
  for (const auto& mode : modes(subject.promises))
    refused(text_of(mode), [&] { (void)built(x, mode, memory); });
  if (!subject.promises.decode) return findings.verdict();
  State state;
  Context context = {.memory = memory};
  refused("start", [&] { built.mixer->start(state, 2, 9, context); });
  return findings.verdict();
}

}  // namespace

const Law kAnyLengthIsTaken = {"any length is taken", nobody, any_length_is_taken};
const Law kRowsOfABatchAreIndependent = {"rows of a batch are independent", nobody,
                                         rows_of_a_batch_are_independent};
const Law kPermutedTokensGivePermutedOutputs = {
    "permuted tokens give permuted outputs", is_positional, permuted_tokens_give_permuted_outputs};
const Law kEvaluationIsDeterministic = {"evaluation is deterministic", nobody,
                                        evaluation_is_deterministic};
const Law kAMemoryMayHaveAnotherLengthAndWidth = {"a memory may have another length and width",
                                                  reads_no_memory,
                                                  a_memory_may_have_another_length_and_width};
const Law kAMemoryThatIsNotReadIsRefused = {"a memory that is not read is refused", reads_a_memory,
                                            a_memory_that_is_not_read_is_refused};

}  // namespace longbow
