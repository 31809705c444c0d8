#include "longbow/data/batch.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace longbow {
namespace {

void copy_into(int64_t* out, const std::vector<int32_t>& values) {
  std::copy(values.begin(), values.end(), out);
}

}  // namespace

Batch collate(const Dataset& dataset, const Plan& plan) {
  const auto samples = static_cast<int64_t>(plan.indices.size()), padded = plan.padded_length;
  const bool per_token = dataset.per_token();
  Batch batch{.tokens = at::zeros({samples, padded}, at::kLong),
              .lengths = at::zeros({samples}, at::kLong),
              .targets = per_token ? at::full({samples, padded}, kIgnore, at::kLong)
                                   : at::full({samples}, kIgnore, at::kLong),
              .samples = samples,
              .after = plan.after,
              .epoch = plan.epoch};
  auto* tokens = batch.tokens.mutable_data_ptr<int64_t>();
  auto* lengths = batch.lengths.mutable_data_ptr<int64_t>();
  auto* targets = batch.targets.mutable_data_ptr<int64_t>();
  for (int64_t row = 0; row < samples; ++row) {
    auto sample = dataset.get(plan.indices[static_cast<size_t>(row)]);
    const auto length = static_cast<int64_t>(sample.tokens.size());
    const auto wanted = per_token ? sample.tokens.size() : 1;
    TORCH_CHECK(length <= padded, "collate: a sample of ", length, " tokens in a batch of length ",
                padded);
    TORCH_CHECK(sample.targets.size() == wanted, "collate: a sample of ", length, " tokens has ",
                sample.targets.size(), " targets, expected ", wanted);
    copy_into(tokens + row * padded, sample.tokens);
    copy_into(targets + row * (per_token ? padded : 1), sample.targets);
    lengths[row] = length;
    batch.real_tokens += length;
  }
  return batch;
}

}  // namespace longbow
