#include "longbow/ops/block_rule.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace longbow {

using at::Tensor;

BlockPairs one_block(int64_t queries, int64_t keys, at::Device device) {
  const auto columns = at::zeros({1, 1, std::min<int64_t>(queries, 1), 1},
                                 at::TensorOptions(at::kLong).device(device));
  return {std::max<int64_t>(queries, 1), std::max<int64_t>(keys, 1), columns, 1};
}

void check_shared(const char* who, const char* name, const Tensor& x, const Tensor& q) {
  TORCH_CHECK(x.dim() >= 2 && (x.size(0) == 1 || x.size(0) == q.size(0)) &&
                  (x.size(1) == 1 || x.size(1) == q.size(1)),
              who, ": ", name, " is ", x.sizes(), ", but q is ", q.sizes());
}

void check_block_rule(const char* who, const Tensor& q, const Tensor& k, const BlockRule& rule) {
  const auto& [pairs, seen, dropped, distances, scale] = rule;
  const int64_t block = pairs.query_block, queries = q.size(2), keys = k.size(2);
  TORCH_CHECK(block > 0 && pairs.key_block > 0, who, ": blocks of ", block, " queries and ",
              pairs.key_block, " keys");
  const auto& columns = pairs.columns;
  TORCH_CHECK(columns.dim() == 4 && columns.scalar_type() == at::kLong &&
                  columns.size(2) == (queries + block - 1) / block,
              who, ": columns are ", columns.scalar_type(), " ", columns.sizes(), " for ", queries,
              " queries in blocks of ", block);
  check_shared(who, "columns", columns, q);
  const auto check = [&](const char* name, const Tensor& x, at::ScalarType type, int64_t tokens) {
    if (!x.defined()) return;
    const bool typed = type == at::kFloat ? x.is_floating_point() : x.scalar_type() == type;
    TORCH_CHECK(typed && x.dim() == 3 && x.size(2) == tokens, who, ": ", name, " is ",
                x.scalar_type(), " ", x.sizes(), ", not ", type, " [.., .., ", tokens, "]");
    check_shared(who, name, x, q);
  };
  check("keep", seen.keep, at::kBool, keys);
  check("query_positions", seen.query_positions, at::kLong, queries);
  check("key_positions", seen.key_positions, at::kLong, keys);
  check("query_groups", seen.query_groups, at::kLong, queries);
  check("key_groups", seen.key_groups, at::kLong, keys);
  check("key_bias", seen.key_bias, at::kFloat, keys);
  TORCH_CHECK(seen.query_groups.defined() == seen.key_groups.defined(), who, ": ",
              seen.query_groups.defined() ? "query_groups without key_groups"
                                          : "key_groups without query_groups");
}

}  // namespace longbow
