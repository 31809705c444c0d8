// Twice the tokens cost at most 2^exponent as much, in bytes and in operations, forward and
// backward, and are not computed by a loop on the host unless the row says so. Where that is
// linear, a token that is decoded reads a longer memory at the same cost.
#include <ATen/ATen.h>

#include <sstream>

#include "longbow/tensors/meter.h"
#include "tests/attention/laws.h"

namespace longbow {
namespace {

constexpr double kSlack = 1.15;

std::string nobody(const Promises&) {
  return "";
}

std::string always_growing(const Promises& p) {
  const bool bidirectional = p.bidirectional && p.launches != Launches::growing;
  const bool causal = p.future != Future::refused && p.causal_launches != Launches::growing;
  return bidirectional || causal ? "" : "starts more operators for more tokens";
}

// Small widths and no batch, so that a term of a higher exponent shows early.
Usage cost(const Subject& subject, const Mask& mode, int64_t tokens, bool padded,
           at::Device device) {
  const Shape narrow = {.width = 8, .heads = 1, .head_width = 4};
  const auto built =
      build(subject, {.max_length = tokens, .type = at::kFloat, .device = device, .shape = narrow});
  const auto x = built.random({1, tokens, 8}, 1).to(at::kFloat).requires_grad_();
  const auto mask = padded ? right_padded(mode, {tokens - 3}, tokens) : mode;
  return measure([&] { built(x, mask).sum().backward(); }, device);
}

void check_growth(const std::string& what, double once, double twice, double exponent,
                  Findings& findings) {
  const double growth = twice / once, allowed = kSlack * std::exp2(exponent);
  std::ostringstream text;
  text.precision(3);
  text << what << " grow " << growth << " times, from " << once << " to " << twice << ", but 2^"
       << exponent << " allows " << allowed;
  findings.that(growth <= allowed, text.str());
}

// A logarithm grows by as much from N to 2N as from N / 2 to N, and a loop over chunks by twice as
// much.
testing::AssertionResult launches_grow_as_promised(const Subject& subject, at::Device device) {
  constexpr double kLinear = 1.5;
  const auto& promises = subject.promises;
  Findings findings;
  for (const auto& mode : modes(promises)) {
    const auto promise = mode.causal ? promises.causal_launches : promises.launches;
    if (promise == Launches::growing) continue;
    const auto launches = [&](int64_t tokens) {
      return cost(subject, mode, tokens, /*padded=*/promises.padding != Padding::refused, device)
          .launches;
    };
    const auto half = launches(1024), once = launches(2048), twice = launches(4096);
    const bool keeps =
        promise == Launches::constant
            ? twice <= once
            : static_cast<double>(twice - once) <= kLinear * static_cast<double>(once - half);
    findings.that(keeps, c10::str(text_of(mode), ": operators started over 1024, 2048 and 4096 ",
                                  "tokens: ", half, ", ", once, ", ", twice));
  }
  return findings.verdict();
}

testing::AssertionResult cost_grows_as_promised(const Subject& subject, at::Device device) {
  const auto& promises = subject.promises;
  Findings findings;
  for (const auto& mode : modes(promises)) {
    const double time = mode.causal ? promises.causal_time : promises.time,
                 memory = mode.causal ? promises.causal_memory : promises.memory;
    const int64_t tokens = memory > 1.75 ? 512 : 2048;
    for (const bool padded : {false, true}) {
      if (padded && promises.padding == Padding::refused) continue;
      const auto once = cost(subject, mode, tokens, padded, device),
                 twice = cost(subject, mode, 2 * tokens, padded, device);
      const auto what = text_of(mode) + (padded ? ", padded: " : ": ");
      const auto bytes = [](int64_t count) { return static_cast<double>(count); };
      check_growth(what + "operations", once.operations, twice.operations, time, findings);
      // On a GPU cuBLAS takes 32 MiB from the same allocator for some of its calls and gives them
      // back: the sum of all allocations is not ours alone, the peak grows by a constant.
      if (!device.is_cuda())
        check_growth(what + "bytes allocated", bytes(once.allocated_bytes),
                     bytes(twice.allocated_bytes), memory, findings);
      check_growth(what + "bytes at the peak", bytes(once.peak_bytes), bytes(twice.peak_bytes),
                   memory, findings);
    }
  }
  return findings.verdict();
}

std::string reads_no_memory_in_linear_time(const Promises& p) {
  return !p.cross || !p.decode ? "decodes from no memory" : p.time > 1 ? "reads every pair" : "";
}

// What the keys and values of a memory come down to, sums or slots, is formed once, not for every
// token.
testing::AssertionResult a_memory_is_read_at_one_cost(const Subject& subject, at::Device device) {
  constexpr int64_t kKeys = 48;
  const at::NoGradGuard no_grad;
  Findings findings;
  const auto built = build(subject, {.cross = true, .device = device});
  const auto operations = [&](int64_t keys) {
    State state;
    Context opening = {.memory = built.random({1, keys, 20}, 2)}, context;
    built.mixer->start(state, 1, 1, opening);
    const auto token = built.random({1, 1, 24}, 3);
    return measure([&] { (void)built.mixer->extend(token, state, context); }, device).operations;
  };
  const auto once = operations(kKeys), twice = operations(2 * kKeys);
  findings.that(twice <= once, c10::str("a token costs ", once, " operations with ", kKeys,
                                        " keys and ", twice, " with twice as many"));
  return findings.verdict();
}

}  // namespace

const Law kLaunchesGrowAsPromised = {"launches grow as promised", always_growing,
                                     launches_grow_as_promised};
const Law kCostGrowsAsPromised = {"cost grows as promised", nobody, cost_grows_as_promised};
const Law kAMemoryIsReadAtOneCost = {"a memory is read at one cost", reads_no_memory_in_linear_time,
                                     a_memory_is_read_at_one_cost};

}  // namespace longbow
