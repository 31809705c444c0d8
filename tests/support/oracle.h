#pragma once
// The definitions, dense and in float64, written for reading. A mechanism's own test registers its
// oracle; law 8 compares every row of the table with it.
#include <functional>
#include <string>

#include "longbow/core/config.h"
#include "longbow/nn/contract/mixer.h"

namespace longbow::oracle {

// [B, 1, N, M] of 0 and 1: key j is kept, and j <= i + (M - N) when causal.
Tensor visible(const Context& context, int64_t batch, int64_t queries, int64_t keys);

// sum_j w_ij v_j / sum_j w_ij over the visible keys; zero where none is visible.
Tensor weighted_mean(const Tensor& weights, const Tensor& v, const Tensor& visible);

// softmax(q k^T / sqrt D) v over the visible keys.
Tensor softmax(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible);

// A parameter or buffer of a module by its dotted name, in float64.
Tensor tensor_of(const torch::nn::Module& module, const std::string& name);

// Projects, splits into heads, attends, merges, projects, and zeroes padded queries, all from the
// names that multi_head() gives its parameters.
using Attend =
    std::function<Tensor(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible)>;
Tensor multi_head(const torch::nn::Module& mixer, const Site& site, const Tensor& x,
                  const Context& context, const Attend& attend);

// y [B, N, C] with the rows of padded queries set to zero.
Tensor without_padding(const Tensor& y, const Context& context);

using Forward = std::function<Tensor(const torch::nn::Module& mixer, const Node& options,
                                     const Site& site, const Tensor& x, const Context& context)>;
// For namespace scope: const bool registered = oracle::add("linear", …). The options come spelled
// out.
bool add(const std::string& mechanism, Forward forward);
const Forward* find(const std::string& mechanism);  // nullptr when none was added

}  // namespace longbow::oracle
