#include "longbow/data/feed/resident.h"

#include <ATen/ATen.h>

namespace longbow {
namespace {

// Without waiting, from pages that stay where they are.
at::Tensor on_device(const at::Tensor& tensor, at::Device device) {
  return (device.is_cuda() ? tensor.pin_memory() : tensor).to(device, /*non_blocking=*/true);
}

template <class T>
at::Tensor copied(std::vector<T>& values, at::ScalarType type, at::Device device) {
  return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, type)
      .to(device, /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace

int64_t resident_bytes(const Dataset& dataset) {
  // Rows of a sample; each has a start and a size.
  const int64_t rows = 1 + dataset.per_token() + dataset.has_second() + dataset.has_segments();
  const int64_t fixed = 8 * dataset.targets() + 4 * dataset.values() + 16 * rows;
  int64_t bytes = 0;
  for (int64_t i = 0; i < dataset.size(); ++i) bytes += 4 * rows * dataset.length(i) + fixed;
  return bytes;
}

// Lays rows one behind the other.
class ResidentData::Packer {
 public:
  void add(const std::vector<int32_t>& row) {
    starts_.push_back(static_cast<int64_t>(items_.size()));
    lengths_.push_back(static_cast<int64_t>(row.size()));
    items_.insert(items_.end(), row.begin(), row.end());
  }
  Rows packed(at::Device device) {
    if (items_.empty()) items_.push_back(0);  // there is somewhere to look for what is padding
    return {.lengths = lengths_,
            .starts = copied(starts_, at::kLong, device),
            .sizes = copied(lengths_, at::kLong, device),
            .items = copied(items_, at::kInt, device)};
  }

 private:
  std::vector<int64_t> starts_, lengths_;
  std::vector<int32_t> items_;
};

at::Tensor ResidentData::Rows::padded(const at::Tensor& which, int64_t columns,
                                      int64_t padding) const {
  const auto place = at::arange(columns, starts.options()).unsqueeze(0);
  const auto real = place < sizes.index_select(0, which).unsqueeze(1);
  const auto from = (starts.index_select(0, which).unsqueeze(1) + place).masked_fill(~real, 0);
  return items.index_select(0, from.flatten())
      .view_as(from)
      .to(at::kLong)
      .masked_fill(~real, padding);
}

ResidentData::ResidentData(const Dataset& dataset, at::Device device) : device_(device) {
  const bool per_token = dataset.per_token();
  Packer tokens, second, segments, token_targets;
  std::vector<int64_t> targets;
  std::vector<float> values;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const auto sample = dataset.get(i);
    tokens.add(sample.tokens);
    second.add(sample.second);
    segments.add(sample.segments);
    if (per_token)
      token_targets.add(sample.targets);
    else
      targets.insert(targets.end(), sample.targets.begin(), sample.targets.end());
    values.insert(values.end(), sample.values.begin(), sample.values.end());
  }
  tokens_ = tokens.packed(device);
  if (dataset.has_second()) second_ = second.packed(device);
  if (dataset.has_segments()) segments_ = segments.packed(device);
  if (per_token) token_targets_ = token_targets.packed(device);
  if (!targets.empty()) targets_ = copied(targets, at::kLong, device);
  if (!per_token && dataset.targets() > 1) targets_ = targets_.view({-1, dataset.targets()});
  if (!values.empty()) values_ = copied(values, at::kFloat, device).view({-1, dataset.values()});
}

Batch ResidentData::batch(const Plan& plan) const {
  const auto samples = static_cast<int64_t>(plan.indices.size()), columns = plan.padded_length;
  auto indices = plan.indices;
  const auto which =
      on_device(at::from_blob(indices.data(), {samples}, at::kLong).clone(), device_);
  Batch batch{.tokens = tokens_.padded(which, columns, 0),
              .lengths = tokens_.sizes.index_select(0, which),
              .samples = samples,
              .padded = false,
              .after = plan.after,
              .epoch = plan.epoch,
              .first = plan.index == 0};
  const auto count = [&](const Rows& rows) {
    for (const auto i : plan.indices) {
      const auto length = rows.lengths[static_cast<size_t>(i)];
      batch.real_tokens += length;
      batch.padded = batch.padded || length < columns;
    }
  };
  count(tokens_);
  if (second_.items.defined()) {
    count(second_);
    batch.second = second_.padded(which, columns, 0);
    batch.second_lengths = second_.sizes.index_select(0, which);
  }
  if (segments_.items.defined()) batch.segments = segments_.padded(which, columns, 0);
  if (token_targets_.items.defined())
    batch.targets = token_targets_.padded(which, columns, kIgnore);
  if (targets_.defined()) batch.targets = targets_.index_select(0, which);
  if (values_.defined()) batch.values = values_.index_select(0, which);
  return batch;
}

}  // namespace longbow
