#pragma once
// The oracles of rows that run over the tokens in one direction or in both.
#include <functional>
#include <string>

#include "tests/support/oracle.h"

namespace longbow::oracle {

// One direction over the tokens of one sequence: x [1, n, C] and its positions [1, n], with the
// parameters whose names begin with `prefix`.
using OneWay =
    std::function<Tensor(const std::string& prefix, const Tensor& x, const Tensor& positions)>;
// Each row by itself, its padded tokens left out: forwards, and backwards too unless it is causal.
Tensor both_ways(const Node& options, const Tensor& x, const Context& context, const OneWay& run);

// x W^T + b, with a bias where there is one.
Tensor projected(const torch::nn::Module& mixer, const std::string& name, const Tensor& x);
// SiLU(sum_j w_j z_{t+j-K+1} + b), tap by tap.
Tensor convolved(const torch::nn::Module& mixer, const std::string& name, const Tensor& z);
Tensor rms_norm(const Tensor& x, double epsilon = 1e-5);
// q, k, v [1, H, n, ·] of RecurrentHeads, and what becomes of o.
Heads recurrent_heads(const torch::nn::Module& mixer, const std::string& prefix, int64_t heads,
                      const Tensor& x);
Tensor recurrent_output(const torch::nn::Module& mixer, const std::string& prefix, const Tensor& o,
                        const Tensor& x, double epsilon = 1e-5);

}  // namespace longbow::oracle
