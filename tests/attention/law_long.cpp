// Longer than every tile, ring and piece that a mechanism takes by default: padding is invisible
// and decoding is the forward pass beyond them too.
#include <ATen/ATen.h>

#include "tests/attention/laws.h"

namespace longbow {
namespace {

constexpr int64_t kTokens = 1101, kShorter = 310;
const Tolerance kClose = {1e-8, 1e-8};

std::string shows_padding(const Promises& p) {
  return p.padding == Padding::invisible ? "" : "shows padding";
}
std::string has_no_state(const Promises& p) {
  return p.decode ? "" : "has no decoding state";
}

Build longest(at::Device device) {
  return {.max_length = kTokens, .device = device};
}

testing::AssertionResult a_long_sequence_hides_its_padding(const Subject& subject,
                                                           at::Device device) {
  const at::NoGradGuard no_grad;
  Findings findings;
  const auto built = build(subject, longest(device));
  const auto x = built.random({2, kTokens, 24}, 1);
  for (const auto& mode : modes(subject.promises)) {
    const auto y = built(x, right_padded(mode, {kTokens, kShorter}, kTokens));
    findings.near(text_of(mode) + ", the longer row alone", y[0], built(x.narrow(0, 0, 1), mode)[0],
                  kClose);
    findings.near(text_of(mode) + ", the shorter row alone", y[1].narrow(0, 0, kShorter),
                  built(x.narrow(0, 1, 1).narrow(1, 0, kShorter), mode)[0], kClose);
  }
  return findings.verdict();
}

testing::AssertionResult a_long_sequence_decodes(const Subject& subject, at::Device device) {
  const at::NoGradGuard no_grad;
  Findings findings;
  const auto built = build(subject, longest(device));
  const auto x = built.random({2, kTokens, 24}, 2);
  State state;
  Context opening;
  built.mixer->start(state, 2, kTokens, opening);
  std::vector<Tensor> pieces;
  int64_t first = 0;
  for (const int64_t count : {290, 1, 19, 720, 1, 1, 69}) {
    Context context = {.random = Random::from_seed(5, 0, device)};
    pieces.push_back(built.mixer->extend(x.narrow(1, first, count), state, context));
    first += count;
  }
  findings.near("pieces", at::cat(pieces, 1), built(x, {.causal = true}), kClose);
  return findings.verdict();
}

}  // namespace

const Law kALongSequenceHidesItsPadding = {"a long sequence hides its padding", shows_padding,
                                           a_long_sequence_hides_its_padding};
const Law kALongSequenceDecodes = {"a long sequence decodes", has_no_state,
                                   a_long_sequence_decodes};

}  // namespace longbow
