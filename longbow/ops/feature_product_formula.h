#pragma once
// The definition of feature_product in ATen, and its gradient, on any device.
#include <ATen/core/Tensor.h>

#include <limits>
#include <optional>
#include <tuple>

#include "longbow/kernels/feature_product.h"

namespace longbow {

using kernels::FeatureMap;  // of elu: elu(x) + 1; of exp: exp(min(x, 35))

struct FeatureProduct {
  FeatureMap query_map = FeatureMap::identity, key_map = FeatureMap::identity;
  // [1 or B, N, 2] and [1 or B, M, 2] float32 or undefined: phi(x) = [map(x) c, map(x) s] with the
  // two numbers of each token.
  at::Tensor query_turns = {}, key_turns = {};
  at::Tensor keep = {};    // [B, M] bool, true = a real key; undefined = all
  bool causal = false;     // queries see the keys up to their own; there are as many of both
  bool normalised = true;  // false: d = 1
  double added = 0, least = -std::numeric_limits<double>::infinity();
};

// feature_product by ATen alone, features and all. The kernel is tested against it.
at::Tensor feature_product_formula(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   const FeatureProduct& how);

// What follows is for registrations: arguments as the dispatcher gives them.
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Maybe = std::optional<at::Tensor>;

void check_feature_product(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const FeatureProduct& how);
// maps: of queries and of keys; bounds: added and least, or nothing where it is not normalised.
FeatureProduct feature_product_of(const Maybe& keep, const Maybe& query_turns,
                                  const Maybe& key_turns, bool causal, at::IntArrayRef maps,
                                  at::ArrayRef<double> bounds);

// out; 1 / d [B, H, N], negative where d does not depend on the weights, or the weights' sums where
// it is not normalised; and the sums over keys in a form of the device's own.
Three feature_product_by_aten(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const Maybe& keep, const Maybe& query_turns, const Maybe& key_turns,
                              bool causal, at::IntArrayRef maps, at::ArrayRef<double> bounds);
// dq, dk, dv. `inverse`: as it was returned, or the gradient of the weights' sums.
Three feature_product_backward_by_aten(const at::Tensor& g, const at::Tensor& q,
                                       const at::Tensor& k, const at::Tensor& v,
                                       const at::Tensor& inverse, const at::Tensor& sums,
                                       const Maybe& keep, const Maybe& query_turns,
                                       const Maybe& key_turns, bool causal, at::IntArrayRef maps,
                                       at::ArrayRef<double> bounds);

}  // namespace longbow
