// One flow for decoding and for segments: any split of a sequence into extensions equals the
// forward pass.
#include <ATen/ATen.h>

#include "tests/attention/laws.h"

namespace longbow {
namespace {

constexpr int64_t kLanes = 3, kTokens = 20;
const Tolerance kClose = {1e-9, 1e-9};
const std::vector<std::vector<int64_t>> kSplits = {
    {20}, {1, 19}, {19, 1}, {7, 1, 4, 8}, std::vector<int64_t>(20, 1)};

std::string has_no_state(const Promises& p) {
  return p.decode ? "" : "has no decoding state";
}
std::string decodes_no_memory(const Promises& p) {
  return !p.decode ? "has no decoding state" : p.cross ? "" : "reads no memory";
}

State started(const Built& built, int64_t lanes, int64_t capacity, const Tensor& memory = {},
              const Mask& mask = {}) {
  State state;
  Context context = {.mask = moved(mask, built.device), .memory = memory};
  built.mixer->start(state, lanes, capacity, context);
  return state;
}

Tensor extended(const Built& built, State& state, const Tensor& x, const Mask& mask = {}) {
  Context context = {.mask = moved(mask, built.device),
                     .random = Random::from_seed(5, 0, built.device)};
  return built.mixer->extend(x, state, context);
}

// x fed in pieces; keep, when defined, says which of its tokens are real and may leave holes.
Tensor in_pieces(const Built& built, State& state, const Tensor& x,
                 const std::vector<int64_t>& split, const Tensor& keep = {}) {
  std::vector<Tensor> outputs;
  int64_t first = 0;
  for (const int64_t count : split) {
    const auto piece = x.narrow(1, first, count);
    const auto mask = keep.defined() ? Mask::from_keep(keep.narrow(1, first, count)) : Mask{};
    outputs.push_back(extended(built, state, piece, mask));
    first += count;
  }
  return at::cat(outputs, 1);
}

// The first tensor that is not of the shape or type that it had, or "".
std::string other_tensor(State& before, State& after) {
  const auto had = before.tensors(), has = after.tensors();
  if (had.size() != has.size()) return c10::str(has.size(), " tensors, not ", had.size());
  for (size_t i = 0; i < had.size(); ++i) {
    const auto &was = *had[i].tensor, &is = *has[i].tensor;
    if (is.sizes() != was.sizes() || is.scalar_type() != was.scalar_type())
      return c10::str(has[i].name, " is ", is.sizes(), " ", is.scalar_type(), ", not ", was.sizes(),
                      " ", was.scalar_type());
  }
  return "";
}

std::string text_of(const std::vector<int64_t>& split) {
  return "pieces " + std::to_string(split.front()) + " … of " + std::to_string(split.size());
}

testing::AssertionResult any_split_is_the_forward_pass(const Subject& subject, at::Device device) {
  Findings findings;
  const auto built = build(subject, {.device = device});
  const auto x = built.random({kLanes, kTokens, 24}, 1).requires_grad_();
  const auto weights = built.random(x.sizes(), 2), keep = some_holes(kLanes, kTokens, 3).to(device);
  const Mask causal = {.causal = true};
  const auto y = built(x, causal), with_holes = built(x, ragged(causal, keep));
  const auto slope = gradients(y, weights, {x})[0];
  for (const auto& split : kSplits) {
    auto state = started(built, kLanes, kTokens);
    const auto pieces = in_pieces(built, state, x, split);
    findings.near(text_of(split), pieces, y, kClose);
    findings.near(text_of(split) + ", gradient", gradients(pieces, weights, {x})[0], slope, kClose);
    const at::NoGradGuard no_grad;
    state = started(built, kLanes, kTokens);
    findings.near(text_of(split) + " with holes", in_pieces(built, state, x, split, keep),
                  with_holes, kClose);
    findings.that(state.seen.equal(keep.sum(1)), text_of(split) + ": another count of real tokens");
  }
  return findings.verdict();
}

testing::AssertionResult lanes_move_and_restart(const Subject& subject, at::Device device) {
  constexpr int64_t kBefore = 7, kAfter = kTokens - kBefore;
  const at::NoGradGuard no_grad;
  Findings findings;
  const auto built = build(subject, {.device = device});
  const Mask causal = {.causal = true};
  const auto start = built.random({kLanes, kBefore, 24}, 4),
             keep = some_holes(kLanes, kBefore, 5).to(device);
  const auto beams = at::tensor({2, 0, 0, 1}, at::kLong).to(device);
  const auto next = built.random({4, kAfter, 24}, 6);

  auto state = started(built, kLanes, kTokens);
  (void)extended(built, state, start, Mask::from_keep(keep));
  state.reorder(beams);
  const auto moved = at::cat({start.index_select(0, beams), next}, 1);
  const auto moved_keep =
      at::cat({keep.index_select(0, beams), at::ones({4, kAfter}, keep.options())}, 1);
  findings.near("lanes moved", in_pieces(built, state, next, {1, kAfter - 1}),
                built(moved, ragged(causal, moved_keep)).narrow(1, kBefore, kAfter), kClose);

  state = started(built, kLanes, kTokens);
  (void)extended(built, state, start);
  state.reset(at::arange(kLanes, beams.options()) == 1);
  const auto fresh = next.narrow(0, 0, kLanes);
  const auto y = in_pieces(built, state, fresh, {1, 2, kAfter - 3});
  const auto continued = built(at::cat({start, fresh}, 1), causal).narrow(1, kBefore, kAfter);
  findings.near("a lane that went on", y[0], continued[0], kClose);
  findings.near("a lane that began anew", y[1], built(fresh, causal)[1], kClose);
  findings.near("the other lane that went on", y[2], continued[2], kClose);
  return findings.verdict();
}

testing::AssertionResult a_memory_is_read_while_decoding(const Subject& subject,
                                                         at::Device device) {
  const at::NoGradGuard no_grad;
  Findings findings;
  const auto built = build(subject, {.cross = true, .device = device});
  const auto x = built.random({kLanes, kTokens, 24}, 7), memory = built.random({kLanes, 13, 20}, 8);
  const auto mask = moved(right_padded({}, {13, 4, 9}, 13), device);
  const auto y = built(x, mask, memory);
  for (const auto& split : kSplits) {
    auto state = started(built, kLanes, kTokens, memory, mask);
    findings.near(text_of(split), in_pieces(built, state, x, split), y, kClose);
  }
  constexpr int64_t kBefore = 3, kAfter = 5;
  const auto beams = at::tensor({1, 1, 0}, at::kLong).to(device);
  auto state = started(built, kLanes, kTokens, memory, mask);
  const auto before = x.narrow(1, 0, kBefore), after = x.narrow(1, kBefore, kAfter);
  (void)extended(built, state, before);
  state.reorder(beams);
  const Mask moved = {.keep = mask.keep.index_select(0, beams)};
  const auto whole = at::cat({before.index_select(0, beams), after}, 1);
  findings.near("lanes moved", extended(built, state, after),
                built(whole, moved, memory.index_select(0, beams)).narrow(1, kBefore, kAfter),
                kClose);
  return findings.verdict();
}

// A step that a GPU has captured reads and writes the tensors that it read and wrote then: they
// keep their shapes and types, and what a step makes of them, put back there, is what the next one
// reads.
testing::AssertionResult a_state_stays_where_it_is(const Subject& subject, at::Device device) {
  constexpr int64_t kBefore = 7;
  const at::NoGradGuard no_grad;
  Findings findings;
  const auto built = build(subject, {.device = device});
  const auto x = built.random({kLanes, kTokens, 24}, 9), y = built(x, {.causal = true});
  auto state = started(built, kLanes, kTokens);
  (void)extended(built, state, x.narrow(1, 0, kBefore));
  state.settle();
  for (int64_t t = kBefore; t < kTokens; ++t) {
    State now = state;
    const auto token = extended(built, now, x.narrow(1, t, 1));
    findings.near("token " + std::to_string(t), token, y.narrow(1, t, 1), kClose);
    const auto moved = other_tensor(state, now);
    findings.that(moved.empty(), "token " + std::to_string(t) + ": " + moved);
    if (!moved.empty()) break;
    state.put(now);
  }
  return findings.verdict();
}

}  // namespace

const Law kAnySplitIntoExtensionsIsTheForwardPass = {
    "any split into extensions is the forward pass", has_no_state, any_split_is_the_forward_pass};
const Law kLanesMoveAndRestart = {"lanes move and restart", has_no_state, lanes_move_and_restart};
const Law kAStateStaysWhereItIs = {"a state stays where it is", has_no_state,
                                   a_state_stays_where_it_is};
const Law kAMemoryIsReadWhileDecoding = {"a memory is read while decoding", decodes_no_memory,
                                         a_memory_is_read_while_decoding};

}  // namespace longbow
