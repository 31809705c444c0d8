#pragma once
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/embedding.h"
#include "tests/support/tensor.h"

namespace longbow {

struct Embedded {
  at::Tensor y, dwords, dpositions;  // in float64, on the CPU
};
struct EmbedInputs {
  at::Tensor words, tokens, positions, dy;
  int64_t padding;

  // The tokens of the first sequence are alike, twenty at a time.
  EmbedInputs(int64_t count, int64_t width, int64_t batch, int64_t length, int64_t without = -1)
      : words(random_normal({count, width}, 1)),
        tokens((random_normal({batch, length}, 2) * 1000).to(at::kLong).remainder(count)),
        positions(random_normal({length + 2, width}, 3)),
        dy(random_normal({batch, length, width}, 4)),
        padding(without) {
    tokens[0] = at::arange(length).div(20, "floor").remainder(count);
  }
  void round_to(at::ScalarType type) {
    for (auto* t : {&words, &positions, &dy}) *t = t->to(type).to(at::kDouble);
  }
};

template <class F>
Embedded embedded(const EmbedInputs& in, const at::TensorOptions& options, const F& f) {
  const auto given = [&](const at::Tensor& t) {
    return t.to(options, false, true).requires_grad_();
  };
  const auto words = given(in.words), positions = given(in.positions);
  const auto y = f(words, in.tokens.to(options.device()), in.padding, positions);
  const auto d = torch::autograd::grad({y}, {words, positions}, {in.dy.to(options)});
  const auto back = [](const at::Tensor& t) { return t.detach().cpu().to(at::kDouble); };
  return {back(y), back(d[0]), back(d[1])};
}

}  // namespace longbow
