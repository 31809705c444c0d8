#include "longbow/data/feed/batch.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace longbow {
namespace {

// One row of a padded matrix.
template <class T, class From>
void fill(at::Tensor& matrix, int64_t row, const std::vector<From>& values) {
  const int64_t columns = matrix.dim() == 1 ? 1 : matrix.size(1);
  std::copy(values.begin(), values.end(), matrix.mutable_data_ptr<T>() + row * columns);
}

void check_length(size_t length, int64_t padded) {
  TORCH_CHECK(static_cast<int64_t>(length) <= padded, "collate: a sample of ", length,
              " tokens in a batch of length ", padded);
}

}  // namespace

std::vector<at::Tensor*> Batch::tensors() {
  std::vector<at::Tensor*> all;
  for (auto* tensor : {&tokens, &lengths, &targets, &second, &second_lengths, &segments, &values})
    if (tensor->defined()) all.push_back(tensor);
  return all;
}

Batch Batch::to(at::Device device) const {
  auto moved = *this;
  for (auto* tensor : moved.tensors()) *tensor = tensor->to(device, /*non_blocking=*/true);
  return moved;
}

Batch Batch::pinned() const {
  auto copy = *this;
  for (auto* tensor : copy.tensors()) *tensor = tensor->pin_memory();
  return copy;
}

Batch collate(const Dataset& dataset, const Plan& plan) {
  const auto samples = static_cast<int64_t>(plan.indices.size()), padded = plan.padded_length;
  const bool per_token = dataset.per_token();
  Batch batch{.tokens = at::zeros({samples, padded}, at::kLong),
              .lengths = at::zeros({samples}, at::kLong),
              .samples = samples,
              .padded = false,
              .after = plan.after,
              .epoch = plan.epoch,
              .first = plan.index == 0};
  const int64_t targets = dataset.targets();
  if (per_token)
    batch.targets = at::full({samples, padded}, kIgnore, at::kLong);
  else if (targets == 1)
    batch.targets = at::full({samples}, kIgnore, at::kLong);
  else if (targets > 1)
    batch.targets = at::full({samples, targets}, kIgnore, at::kLong);
  if (dataset.has_second()) {
    batch.second = at::zeros({samples, padded}, at::kLong);
    batch.second_lengths = at::zeros({samples}, at::kLong);
  }
  if (dataset.has_segments()) batch.segments = at::zeros({samples, padded}, at::kLong);
  if (dataset.values() > 0) batch.values = at::zeros({samples, dataset.values()}, at::kFloat);
  for (int64_t row = 0; row < samples; ++row) {
    const auto sample = dataset.get(plan.indices[static_cast<size_t>(row)]);
    const auto wanted = per_token ? sample.tokens.size() : static_cast<size_t>(targets);
    check_length(sample.tokens.size(), padded);
    TORCH_CHECK(sample.targets.size() == wanted, "collate: a sample of ", sample.tokens.size(),
                " tokens has ", sample.targets.size(), " targets, expected ", wanted);
    fill<int64_t>(batch.tokens, row, sample.tokens);
    if (batch.targets.defined()) fill<int64_t>(batch.targets, row, sample.targets);
    batch.lengths.mutable_data_ptr<int64_t>()[row] = static_cast<int64_t>(sample.tokens.size());
    batch.real_tokens += static_cast<int64_t>(sample.tokens.size());
    batch.padded = batch.padded || static_cast<int64_t>(sample.tokens.size()) < padded;
    if (batch.segments.defined()) fill<int64_t>(batch.segments, row, sample.segments);
    if (batch.values.defined()) fill<float>(batch.values, row, sample.values);
    if (sample.reference) batch.references.push_back(*sample.reference);
    if (!batch.second.defined()) continue;
    check_length(sample.second.size(), padded);
    batch.padded = batch.padded || static_cast<int64_t>(sample.second.size()) < padded;
    fill<int64_t>(batch.second, row, sample.second);
    batch.second_lengths.mutable_data_ptr<int64_t>()[row] =
        static_cast<int64_t>(sample.second.size());
    batch.real_tokens += static_cast<int64_t>(sample.second.size());
  }
  return batch;
}

}  // namespace longbow
