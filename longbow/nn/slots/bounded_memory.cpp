#include "longbow/nn/slots/bounded_memory.h"

#include <ATen/ATen.h>

#include "longbow/ops/causal_product.h"

namespace longbow {
namespace {

Tensor weights_by_head(const Written& written) {
  return written.weights.expand({written.rows.size(0), written.rows.size(1), -1, -1});
}

Tensor bias_by_slot(const Written& written) {
  return written.bias.expand(
      {written.rows.size(0), written.rows.size(1), written.weights.size(3), written.rows.size(3)});
}

}  // namespace

Tensor read_memory(const Tensor& q, const Written& keys, const Written& values,
                   const Tensor& visible, const Weighing& weighing, Context& context) {
  auto scores = causal_product(q, keys.rows, weights_by_head(keys));  // [B, H, T, R]
  if (keys.past.defined()) scores = scores + q.matmul(keys.past.transpose(-2, -1));
  if (keys.divisor.defined()) scores = scores / keys.divisor;
  if (keys.bias.defined()) scores = scores + q.matmul(bias_by_slot(keys).transpose(-2, -1));
  const auto p = masked_softmax(scores, visible);
  if (context.maps) (*context.maps)[weighing.path] = p.detach();
  const auto reading =
      dropout(p, weighing.dropout, weighing.training, context, weighing.path + ".dropout");
  const auto shares = values.divisor.defined() ? reading / values.divisor : reading;
  auto y = causal_product(shares, weights_by_head(values), values.rows);
  if (values.past.defined()) y = y + shares.matmul(values.past);
  if (values.bias.defined()) y = y + reading.matmul(bias_by_slot(values));
  return y;
}

Tensor grown_memory(const Written& written) {
  const auto sums = weights_by_head(written).transpose(-2, -1).matmul(written.rows);
  return written.past.defined() ? written.past + sums : sums;
}

}  // namespace longbow
