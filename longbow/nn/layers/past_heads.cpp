#include "longbow/nn/layers/past_heads.h"

#include <ATen/ATen.h>

#include "longbow/nn/layers/past_rows.h"

namespace longbow {

KeysAndValues KeyValueProjections::operator()(const Tensor& rows) const {
  return {split_heads(key(rows), heads), split_heads(value(rows), heads)};
}

void open_past_heads(State& state, const std::string& name, int64_t lanes, int64_t past,
                     const KeyValueProjections& projections, bool keep_rows) {
  const auto& weight = projections.key.weight;
  const bool training = at::GradMode::is_enabled();
  if (training || keep_rows)
    open_past_rows(state, name, lanes, past, weight.size(1), weight.options());
  if (training) return;
  for (const auto* what : {".keys", ".values"})
    open_past_rows(state, name + what, lanes, past, weight.size(0), weight.options());
}

PastHeads grow_past_heads(State& state, const std::string& name, const Tensor& rows,
                          const KeyValueProjections& projections, const Context& context) {
  PastHeads result;
  if (state.lane.count(name)) result.rows = grow_past_rows(state, name, rows, context);
  if (!state.lane.count(name + ".keys")) {
    result.heads = projections(result.rows);
    return result;
  }
  const auto grown = [&](const char* what, const Linear& projection) {
    return split_heads(grow_past_rows(state, name + what, projection(rows), context),
                       projections.heads);
  };
  result.heads = {grown(".keys", projections.key), grown(".values", projections.value)};
  return result;
}

}  // namespace longbow
