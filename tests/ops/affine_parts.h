#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/affine.h"
#include "tests/support/tensor.h"

namespace longbow {

// Wherever the gradients of the parts lie: beside each other, two of three of them, in another
// order, apart, one in three places, with a gap. Both sizes have kernels of their own on a CPU.
// Nor does it matter on a GPU whether parts are wide.
inline void expect_gradients_from_anywhere(const at::TensorOptions& options, Tolerance near,
                                           int64_t width = 16) {
  for (const int64_t tokens : {3, 150}) {
    const auto all = random_normal({2, tokens, 3 * width}, 4).to(options);
    const auto beside = all.split(width, -1);
    const auto wide = random_normal({2, tokens, 5 * width}, 5).to(options);
    const auto first = wide.narrow(-1, 3, width), last = wide.narrow(-1, 40, width);
    for (const auto& gradients :
         {std::vector<at::Tensor>{beside[0], beside[1], beside[2]},
          {beside[1], beside[0], beside[2]},
          {beside[0], beside[1], first},
          {first, beside[0], beside[1]},
          {beside[0], beside[1].clone(), beside[2]},
          {beside[0], beside[0], beside[0]},
          {beside[0], first, last},
          {beside[0], wide.narrow(-1, 3, width + 4), wide.narrow(-1, 40, width - 4)}}) {
      std::vector<int64_t> widths;
      for (const auto& gradient : gradients) widths.push_back(gradient.size(-1));
      std::vector<at::Tensor> inputs = {random_normal({2, tokens, 32}, 1),
                                        random_normal({3 * width, 32}, 2),
                                        random_normal({3 * width}, 3)};
      for (auto& t : inputs) t = t.to(options).requires_grad_();
      const auto got = torch::autograd::grad(affine_parts(inputs[0], inputs[1], inputs[2], widths),
                                             inputs, gradients);
      const auto exact = [](const at::Tensor& t) { return t.detach().cpu().to(at::kDouble); };
      const auto dy = exact(at::cat(gradients, -1)).flatten(0, 1),
                 x = exact(inputs[0]).flatten(0, 1);
      EXPECT_NEAR_TENSOR(exact(got[0]).flatten(0, 1), dy.mm(exact(inputs[1])), near);
      EXPECT_NEAR_TENSOR(exact(got[1]), dy.t().mm(x), near);
      EXPECT_NEAR_TENSOR(exact(got[2]), dy.sum(0), near);
    }
  }
}

}  // namespace longbow
