// Padding is invisible: in values and in gradients a padded batch is its sequences, each alone.
#include <ATen/ATen.h>

#include "tests/attention/laws.h"

namespace longbow {
namespace {

const Tolerance kClose = {1e-9, 1e-9};

std::string shows_padding(const Promises& p) {
  return p.padding == Padding::refused   ? "cannot hide padding"
         : p.padding == Padding::visible ? "shows padding"
                                         : "";
}

Tensor positions_kept(const Tensor& keep) {
  return keep.nonzero().squeeze(1);
}

// Values and gradients of a batch under `mask` against each of its sequences without any mask.
void compare_with_each_alone(const Built& built, const Mask& given, const std::string& what,
                             Findings& findings) {
  const auto mask = moved(given, built.device);
  const int64_t batch = mask.keep.size(0), n = mask.keep.size(1);
  const auto x = built.random({batch, n, 24}, 1).requires_grad_(),
             weights = built.random({batch, n, 24}, 2);
  const auto y = built(x, mask);
  const auto together = gradients(y, weights, built.leaves(x));
  findings.zero(what + ", padded queries", y.masked_fill(mask.keep.unsqueeze(-1), 0));
  findings.zero(what + ", gradient of padded tokens",
                together[0].masked_fill(mask.keep.unsqueeze(-1), 0));

  std::vector<Tensor> sums;
  for (size_t i = 1; i < together.size(); ++i) sums.push_back(at::zeros_like(together[i]));
  for (int64_t b = 0; b < batch; ++b) {
    const auto real = positions_kept(mask.keep[b]);
    const auto row = what + ", row " + std::to_string(b);
    const auto pick = [&](const Tensor& t) {
      return t[b].detach().index_select(0, real).unsqueeze(0);
    };
    const auto own = pick(x).requires_grad_();
    const auto alone = built(own, {.causal = mask.causal});
    findings.near(row, pick(y), alone, kClose);
    const auto apart = gradients(alone, pick(weights), built.leaves(own));
    findings.near(row + ", gradient of its tokens", pick(together[0]), apart[0], kClose);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += apart[i + 1];
  }
  const auto parameters = built.parameters();
  for (size_t i = 0; i < sums.size(); ++i)
    findings.near(what + ", gradient of " + parameters[i].name, together[i + 1], sums[i],
                  {1e-8, 1e-8});
}

void compare_other_contents(const Built& built, const Mask& given, const std::string& what,
                            Findings& findings) {
  const auto mask = moved(given, built.device);
  const auto x = built.random({mask.keep.size(0), mask.keep.size(1), 24}, 3);
  const auto other = at::where(mask.keep.unsqueeze(-1), x, 100 * built.random(x.sizes(), 4));
  findings.near(what + ", other contents in padded places", built(other, mask), built(x, mask),
                kClose);
}

void compare_appended_padding(const Built& built, const Mask& mode, Findings& findings) {
  const auto x = built.random({2, 19, 24}, 5);
  const auto longer = at::cat({x, built.random({2, 14, 24}, 6)}, 1);
  findings.near(text_of(mode) + ", appended padding",
                built(longer, right_padded(mode, {19, 11}, 33)).narrow(1, 0, 19),
                built(x, right_padded(mode, {19, 11}, 19)), kClose);
}

// Padding of the memory and of the queries that read it, each by its own mask.
void compare_memories(const Built& built, const Mask& mode, Findings& findings) {
  const auto x = built.random({2, 9, 24}, 7), memory = built.random({2, 15, 20}, 8);
  auto mask = right_padded({}, {15, 6}, 15);
  mask.query_keep = right_padded({}, {4, 9}, 9).keep;
  const auto y = built(x, mask, memory);
  const auto what = text_of(mode) + ", memory";
  findings.near(what + ", row 0", y[0].narrow(0, 0, 4),
                built(x.narrow(0, 0, 1).narrow(1, 0, 4), {}, memory.narrow(0, 0, 1))[0], kClose);
  findings.near(what + ", row 1", y[1],
                built(x.narrow(0, 1, 1), {}, memory.narrow(0, 1, 1).narrow(1, 0, 6))[0], kClose);
  findings.zero(what + ", padded queries", y[0].narrow(0, 4, 5));
  const auto holes = some_holes(2, 15, 9).to(built.device);
  const auto read = built(x, ragged({}, holes), memory);
  for (int64_t b = 0; b < 2; ++b) {
    const auto kept = memory[b].index_select(0, positions_kept(holes[b])).unsqueeze(0);
    findings.near(what + " with holes, row " + std::to_string(b), read[b],
                  built(x.narrow(0, b, 1), {}, kept)[0], kClose);
  }
}

testing::AssertionResult padding_is_invisible(const Subject& subject, at::Device device) {
  Findings findings;
  const auto built = build(subject, {.device = device});
  for (const auto& mode : modes(subject.promises)) {
    const auto what = text_of(mode);
    const auto right = right_padded(mode, {40, 5, 1, 33}, 40), one = right_padded(mode, {7}, 12);
    const auto holes = ragged(mode, some_holes(4, 40, 10)), left = ragged(mode, right.keep.flip(1));
    for (const auto& mask : {right, one, holes, left})
      compare_other_contents(built, mask, what, findings);
    if (subject.promises.padding == Padding::contents) continue;
    compare_with_each_alone(built, right, what + ", right padding", findings);
    compare_with_each_alone(built, one, what + ", batch of one", findings);
    compare_with_each_alone(built, left, what + ", left padding", findings);
    compare_with_each_alone(built, holes, what + ", holes", findings);
    compare_appended_padding(built, mode, findings);
  }
  if (subject.promises.cross && subject.promises.bidirectional &&
      subject.promises.padding == Padding::invisible)
    compare_memories(build(subject, {.cross = true, .device = device}), {}, findings);
  return findings.verdict();
}

void look_at_a_memory_of_nothing(const Built& built, Findings& findings) {
  const auto x = built.random({2, 6, 24}, 11).requires_grad_();
  const auto mask = right_padded({}, {0, 8}, 8);
  const auto read = [&](uint64_t seed) {
    auto memory = built.random({2, 8, 20}, 12);
    memory[0].copy_(random_normal({8, 20}, seed));
    return built(x, mask, memory);
  };
  const auto y = read(13);
  findings.finite("a query that sees no key", y);
  findings.near("a query that sees no key, other contents", read(14), y, kClose);
  for (const auto& gradient : gradients(y, random_normal(y.sizes(), 15), built.leaves(x)))
    findings.finite("a gradient of a query that sees no key", gradient);
}

testing::AssertionResult an_empty_row_is_finite(const Subject& subject, at::Device device) {
  Findings findings;
  const auto built = build(subject, {.device = device});
  for (const auto& mode : modes(subject.promises))
    for (const bool anywhere : {false, true}) {
      auto mask = right_padded(mode, {0, 13}, 13);
      mask.ragged = anywhere;
      const auto x = built.random({2, 13, 24}, 16).requires_grad_();
      const auto y = built(x, mask);
      findings.zero(text_of(mode) + ", the empty row", y[0]);
      findings.near(text_of(mode) + ", the row beside it", y[1], built(x.narrow(0, 1, 1), mode)[0],
                    kClose);
      const auto all = gradients(y, random_normal(y.sizes(), 17), built.leaves(x));
      findings.zero(text_of(mode) + ", gradient of the empty row", all[0][0]);
      for (const auto& gradient : all) findings.finite(text_of(mode) + ", a gradient", gradient);
    }
  if (subject.promises.cross && subject.promises.bidirectional)
    look_at_a_memory_of_nothing(build(subject, {.cross = true, .device = device}), findings);
  return findings.verdict();
}

}  // namespace

const Law kPaddingIsInvisible = {"padding is invisible", shows_padding, padding_is_invisible};
const Law kAnEmptyRowIsFinite = {"an empty row is finite", shows_padding, an_empty_row_is_finite};

}  // namespace longbow
