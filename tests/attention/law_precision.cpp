// Less precision is nearby: what a mechanism computes in float32, bfloat16 and float16, values and
// gradients, is what it computes in float64, wherever training or decoding may call it.
//
// Parameters and inputs are rounded to the type first, so that only the computation differs, and
// the discrete choices are those of float64, because of two keys that nearly tie each type may take
// another. Errors are relative, token by token; see `allowed` for the bound and its reason.
#include <ATen/ATen.h>

#include <deque>

#include "tests/attention/laws.h"

namespace longbow {
namespace {

std::string nobody(const Promises&) {
  return "";
}
std::string hides_no_padding(const Promises& p) {
  return p.padding == Padding::refused ? "cannot hide padding" : "";
}
std::string reads_no_memory(const Promises& p) {
  return p.cross ? "" : "reads no memory";
}
std::string has_no_state(const Promises& p) {
  return p.decode ? "" : "has no decoding state";
}

// How many roundings float64 is moved by to see how sensitive the mechanism itself is.
constexpr double kNudge = 8;
constexpr uint64_t kNudges = 4;
// A nudge: which one (0 is none), and the relative size of what it adds to inputs and parameters.
struct Nudge {
  uint64_t seed = 0;
  double size = 0;
};

constexpr const char* kValues = "values";

// One run of a scenario, in float64 or in a type. The first one records its choices, and the others
// replay them.
class Run {
 public:
  Run(const Built& built, at::ScalarType rounded, at::ScalarType computed,
      std::deque<Choices>& choices, const Nudge& nudge)
      : built(built),
        rounded_(rounded),
        computed_(computed),
        choices_(choices),
        records_(choices.empty()),
        nudge_(nudge) {}

  // Numbers that are not centred, so that sums grow.
  Tensor input(at::IntArrayRef shape, uint64_t seed) const {
    const auto x = (built.random(shape, seed) + 0.5).to(rounded_).to(computed_);
    return nudged(x, seed).requires_grad_();
  }
  Tensor nudged(const Tensor& x, uint64_t seed) const {
    if (nudge_.seed == 0) return x;
    return x * (1 + nudge_.size * built.random(x.sizes(), 1000 * nudge_.seed + seed));
  }
  Context context(const Mask& mask, const Tensor& memory = {}) {
    if (records_) choices_.emplace_back();
    auto& own = choices_.at(calls_++);
    own.mode = records_ ? Choices::Mode::record : Choices::Mode::replay;
    return {.mask = moved(mask, built.device),
            .memory = memory,
            .random = Random::from_seed(5, 0, built.device),
            .choices = &own};
  }
  Tensor forward(const Tensor& x, const Mask& mask, const Tensor& memory = {}) {
    auto flow = context(mask, memory);
    return (*built.mixer)(x, flow);
  }
  // Keeps the values of the tokens of y, and their gradients to inputs and parameters.
  void keep(const Tensor& y, const std::vector<Tensor>& inputs) {
    auto leaves = inputs;
    const auto parameters = built.parameters();
    for (const auto& leaf : parameters) leaves.push_back(leaf.tensor);
    const auto slopes = gradients(y, random_normal(y.sizes(), 99), leaves);
    tokens.push_back({kValues, y.detach()});
    for (size_t i = 0; i < inputs.size(); ++i)
      tokens.push_back({"gradient of input " + std::to_string(i), slopes[i]});
    std::vector<Leaf> own;
    for (size_t i = 0; i < parameters.size(); ++i)
      own.push_back({"gradient of " + parameters[i].name, slopes[inputs.size() + i]});
    whole.push_back(own);
  }

  const Built& built;
  std::vector<Leaf> tokens;              // [.., C] each, compared row by row
  std::vector<std::vector<Leaf>> whole;  // compared as a whole

 private:
  at::ScalarType rounded_, computed_;
  std::deque<Choices>& choices_;
  size_t calls_ = 0;
  bool records_;
  Nudge nudge_;
};
using Scenario = std::function<void(Run&)>;

// Rows to compare, [rows, C] in float64, and what counts as their size.
struct Rows {
  std::string what;
  Tensor values;
  Tensor sizes;  // [rows]
};

Tensor flat(const Tensor& x, int64_t width) {
  return x.detach().to(at::kCPU, at::kDouble).reshape({-1, width});
}

// A row counts as at least a quarter as long as the others are on average: a shorter one is a
// difference of longer ones. The gradient of a parameter is one row, and the others are those of
// all parameters: that of a key's bias is 0 under a softmax, and what is left of it is rounding of
// the rest.
constexpr double kFloor = 0.25;

std::vector<Rows> rows_of(const Run& run) {
  std::vector<Rows> all;
  for (const auto& [what, tensor] : run.tokens) {
    const auto values = flat(tensor, tensor.size(-1)), sizes = values.norm(2, 1);
    const auto there = sizes.masked_select(sizes > 0);
    const double typical = there.numel() > 0 ? there.square().mean().sqrt().item<double>() : 0;
    all.push_back({what, values, sizes.clamp_min(kFloor * typical)});
  }
  for (const auto& leaves : run.whole) {
    double squares = 0, count = 0;
    for (const auto& leaf : leaves) {
      squares += flat(leaf.tensor, leaf.tensor.numel()).square().sum().item<double>();
      count += static_cast<double>(leaf.tensor.numel());
    }
    for (const auto& [what, tensor] : leaves) {
      const auto values = flat(tensor, tensor.numel());
      const double typical = std::sqrt(squares / count * static_cast<double>(tensor.numel()));
      all.push_back({what, values, values.norm(2, 1).clamp_min(kFloor * typical)});
    }
  }
  return all;
}

// How many times the bound each row is off, less 1 (0 where it is within the bound), and the
// largest of it.
Tensor excess(const Rows& want, const Tensor& got, double bound) {
  const auto error = (got - want.values).norm(2, 1);
  return (error / (bound * want.sizes))
      .nan_to_num(INFINITY, INFINITY)
      .masked_fill(error == 0, 0)
      .sub(1)
      .clamp_min(0);
}

// Half types: a path through a layer rounds about eight tensors to the type, and as many on the way
// back; sums and the cores of the mechanisms are float32. float32 itself has no wider type to sum
// in: a sum of n terms may lose n roundings, and n is below 1024.
double allowed(at::ScalarType type) {
  return unit_roundoff(type) * (type == at::kFloat ? 1024 : 16);
}

struct Case {
  std::string what;
  Build how;
};

// What exceeds the bound in a half type may not exceed in all what float64 itself does when its
// inputs and parameters are off by eight roundings. That tells a lossy computation from a mechanism
// that is sensitive: large scores, or a small difference of large numbers, have no more digits in
// any computation, and at a kink (relu, max) a gradient jumps. Values may not jump, so float64 is
// moved by next to nothing there, and what it does is scaled.
void compare(const Subject& subject, const Case& tested, const Scenario& scenario,
             Findings& findings) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const auto built = build(subject, tested.how);
    cast(built, type);
    std::deque<Choices> choices;
    const auto rows = [&](at::ScalarType computed, const Nudge& nudge) {
      cast(built, computed);
      std::vector<Tensor> before;
      Run run(built, type, computed, choices, nudge);
      const at::NoGradGuard no_grad;
      for (const auto& leaf : built.parameters()) {
        before.push_back(leaf.tensor.clone());
        leaf.tensor.copy_(run.nudged(leaf.tensor, before.size()));
      }
      {
        const at::AutoGradMode with_gradients(true);
        scenario(run);
      }
      size_t i = 0;
      for (const auto& leaf : built.parameters()) leaf.tensor.copy_(before[i++]);
      for (const auto& [what, tensor] : run.tokens)
        findings.that(tensor.scalar_type() == computed,
                      tested.what + ", " + what + ": another type");
      return rows_of(run);
    };
    const auto want = rows(at::kDouble, {}), got = rows(type, {});
    const double bound = allowed(type), far = kNudge * unit_roundoff(type), near = 1e-8;
    std::vector<std::vector<Rows>> nearby, away;
    for (size_t i = 0; i < want.size(); ++i) {
      const auto over = excess(want[i], got[i].values, bound);
      if (over.max().item<double>() == 0) continue;
      const bool values = want[i].what == kValues;
      auto& moved = values ? nearby : away;
      const uint64_t nudges = type == at::kFloat ? 0 : kNudges;
      for (uint64_t seed = moved.size() + 1; seed <= nudges; ++seed)
        moved.push_back(rows(at::kDouble, {seed, values ? near : far}));
      auto sensitive = at::zeros_like(over);
      for (const auto& each : moved)
        sensitive =
            sensitive.maximum(excess(want[i], each[i].values, bound * (values ? near / far : 1)));
      findings.that((over.norm() <= sensitive.norm()).item<bool>(),
                    c10::str(tested.what, ", ", type, ", ", want[i].what, ": row ",
                             over.argmax().item<int64_t>(), " is off by ",
                             bound * (1 + over.max().item<double>()), " of its length, but ", bound,
                             " is allowed, and float64 moves by ",
                             bound * (1 + sensitive.max().item<double>())));
    }
  }
}

// Long enough that a sum kept in bfloat16 would stop growing.
testing::AssertionResult less_precision(const Subject& subject, at::Device device) {
  constexpr int64_t kTokens = 600;
  Findings findings;
  for (const auto& mode : modes(subject.promises))
    compare(
        subject, {text_of(mode), {.max_length = kTokens, .device = device}},
        [&](Run& run) {
          const auto x = run.input({1, kTokens, 24}, 3);
          run.keep(run.forward(x, mode), {x});
        },
        findings);
  return findings.verdict();
}

// A batch with an empty row.
testing::AssertionResult under_padding(const Subject& subject, at::Device device) {
  Findings findings;
  for (const auto& mode : modes(subject.promises)) {
    const auto right = right_padded(mode, {40, 5, 0, 33}, 40);
    for (const auto& mask :
         {right, ragged(mode, right.keep.flip(1)), ragged(mode, some_holes(4, 40, 10))})
      compare(
          subject, {text_of(mode) + (mask.ragged ? ", ragged" : ", padded"), {.device = device}},
          [&](Run& run) {
            const auto x = run.input({4, 40, 24}, 1);
            run.keep(run.forward(x, mask), {x});
            const auto padded = mask.keep.logical_not().to(device).unsqueeze(-1);
            findings.zero("padded queries", run.tokens[0].tensor * padded);
            if (subject.promises.padding != Padding::visible)
              findings.zero("gradient of padded tokens", run.tokens[1].tensor * padded);
          },
          findings);
  }
  return findings.verdict();
}

testing::AssertionResult with_a_memory(const Subject& subject, at::Device device) {
  Findings findings;
  for (const auto& mode : modes(subject.promises))
    compare(
        subject, {text_of(mode), {.cross = true, .device = device}},
        [&](Run& run) {
          const auto x = run.input({3, 9, 24}, 7), memory = run.input({3, 15, 20}, 8);
          run.keep(run.forward(x, mode, memory), {x, memory});
          if (subject.promises.padding == Padding::refused) return;
          auto mask = right_padded(mode, {15, 6, 0}, 15);
          mask.query_keep = right_padded({}, {4, 9, 9}, 9).keep;
          run.keep(run.forward(x, mask, memory), {x, memory});
        },
        findings);
  return findings.verdict();
}

// A sequence with holes in pieces, the lanes moved on the way, and a memory where one is read.
void decode(Run& run, bool cross) {
  const auto memory = cross ? run.input({3, 13, 20}, 8) : Tensor();
  auto opening = run.context(cross ? right_padded({}, {13, 4, 9}, 13) : Mask{}, memory);
  State state;
  run.built.mixer->start(state, 3, 20, opening);
  const auto x = run.input({3, 20, 24}, 7);
  const auto keep = some_holes(3, 20, 3);
  std::vector<Tensor> outputs;
  int64_t first = 0;
  for (const int64_t count : {7, 1, 1, 3, 8}) {
    auto context = run.context(Mask::from_keep(keep.narrow(1, first, count)));
    outputs.push_back(run.built.mixer->extend(x.narrow(1, first, count), state, context));
    first += count;
    state.reorder(at::tensor({1, 2, 0}, at::kLong).to(run.built.device));
  }
  run.keep(at::cat(outputs, 1), cross ? std::vector<Tensor>{x, memory} : std::vector<Tensor>{x});
}

testing::AssertionResult while_decoding(const Subject& subject, at::Device device) {
  Findings findings;
  for (const bool cross : {false, true})
    if (!cross || subject.promises.cross)
      compare(
          subject, {cross ? "with a memory" : "alone", {.cross = cross, .device = device}},
          [&](Run& run) { decode(run, cross); }, findings);
  return findings.verdict();
}

}  // namespace

const Law kLessPrecisionIsNearby = {"less precision is nearby", nobody, less_precision};
const Law kLessPrecisionIsNearbyUnderPadding = {"less precision is nearby under padding",
                                                hides_no_padding, under_padding};
const Law kLessPrecisionIsNearbyWithAMemory = {"less precision is nearby with a memory",
                                               reads_no_memory, with_a_memory};
const Law kLessPrecisionIsNearbyWhileDecoding = {"less precision is nearby while decoding",
                                                 has_no_state, while_decoding};

}  // namespace longbow
