#include "longbow/data/feed/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "longbow/core/option_error.h"
#include "longbow/core/seed.h"

namespace longbow {
namespace {

int64_t padded(int64_t length, const SamplerConfig& config) {
  if (config.lengths.empty())
    return std::max<int64_t>(1, (length + config.bucket - 1) / config.bucket) * config.bucket;
  auto end = std::ranges::lower_bound(config.lengths, length);
  if (end == config.lengths.end())
    throw OptionError(
        "lengths",
        fmt::format("ends at {}, but a sample has {} tokens", config.lengths.back(), length),
        "add a longer one, or cut the samples with data.max_tokens");
  return *end;
}

template <class T>
void permute(std::vector<T>& items, Stream& stream) {
  std::vector<T> permuted;
  for (auto i : stream.permutation(std::ssize(items)))
    permuted.push_back(std::move(items[static_cast<size_t>(i)]));
  items = std::move(permuted);
}

}  // namespace

void check_padded_lengths(const SamplerConfig& config) {
  require_option(std::ranges::is_sorted(config.lengths, std::less_equal<>{}), "lengths",
                 "does not rise", "write them from the shortest to the longest, each once");
}

int64_t samples_per_batch(const SamplerConfig& config, int64_t length) {
  if (config.batch_tokens == 0) return config.batch_size;
  return std::max<int64_t>(1, config.batch_tokens / length);
}

Sampler::Sampler(const std::vector<int64_t>& lengths, SamplerConfig config, uint64_t seed)
    : config_(std::move(config)), seed_(seed) {
  std::map<int64_t, int64_t> counts;  // samples by padded length
  check_options(config_.places, "train", [&] {
    check_padded_lengths(config_);
    for (auto length : lengths) ++counts[padded_.emplace_back(padded(length, config_))];
  });
  if (config_.carry) {
    if (config_.batch_tokens > 0)
      throw UserError("carry: rows that go on need the same number of them in every batch",
                      "set batch_size instead of batch_tokens");
    batches_per_epoch_ = samples_per_row();
    counts.clear();
  }
  for (auto [length, count] : counts) {
    const auto size = samples_per_batch(config_, length);
    batches_per_epoch_ += (config_.drop_last ? count : count + size - 1) / size;
  }
  if (batches_per_epoch_ > 0) return;
  const auto budget = config_.batch_tokens > 0 ? fmt::format("{} tokens", config_.batch_tokens)
                                               : std::to_string(config_.batch_size);
  throw UserError(fmt::format("no full batch of {} in {} samples", budget, lengths.size()),
                  fmt::format("lower {}, widen bucket, or set drop_last: false",
                              config_.batch_tokens > 0 ? "batch_tokens" : "batch_size"));
}

Plan Sampler::next() {
  if (planned_epoch_ != position_.epoch) plan_epoch(position_.epoch);
  const auto& batch = planned_[static_cast<size_t>(position_.index)];
  Plan plan{.indices = batch.indices,
            .padded_length = batch.padded_length,
            .epoch = position_.epoch,
            .index = position_.index};
  seek({position_.epoch, position_.index + 1});
  plan.after = position_;
  return plan;
}

void Sampler::seek(SamplerPosition position) {
  const bool over = position.index == batches_per_epoch_;  // of the epoch: the next one follows
  if (position.epoch < 0 || position.index < 0 || position.index > batches_per_epoch_ ||
      (over && position.epoch == std::numeric_limits<int64_t>::max()))
    throw UserError(fmt::format("batch {} of epoch {} does not exist, an epoch has {}",
                                position.index, position.epoch, batches_per_epoch_),
                    "was the checkpoint made with other data or other batches?");
  if (over) position = {position.epoch + 1, 0};
  position_ = position;
}

void Sampler::plan_epoch(int64_t epoch) {
  planned_epoch_ = epoch;
  if (config_.carry) {
    plan_rows();
    return;
  }
  auto stream = Stream(seed_, "order").at(static_cast<uint64_t>(epoch));
  std::vector<int64_t> order(padded_.size());
  std::iota(order.begin(), order.end(), 0);
  if (config_.shuffle) permute(order, stream);
  std::map<int64_t, Batch> open;  // by padded length
  planned_.clear();
  for (auto i : order) {
    auto length = padded_[static_cast<size_t>(i)];
    auto& batch = open[length];
    batch.padded_length = length;
    batch.indices.push_back(i);
    if (std::ssize(batch.indices) == samples_per_batch(config_, length))
      planned_.push_back(std::exchange(batch, {}));
  }
  for (auto& [length, batch] : open)
    if (!batch.indices.empty() && !config_.drop_last) planned_.push_back(std::move(batch));
  if (config_.shuffle) permute(planned_, stream);
}

int64_t Sampler::samples_per_row() const {
  const int64_t samples = std::ssize(padded_), rows = config_.batch_size;
  return config_.drop_last ? samples / rows : (samples + rows - 1) / rows;
}

// Row b holds samples [b S, (b + 1) S), one in each batch. The last rows may end early.
void Sampler::plan_rows() {
  const int64_t each = samples_per_row(), samples = std::ssize(padded_);
  planned_.assign(static_cast<size_t>(each), {});
  for (int64_t row = 0; row < config_.batch_size; ++row)
    for (int64_t place = 0; place < each && row * each + place < samples; ++place) {
      auto& batch = planned_[static_cast<size_t>(place)];
      batch.indices.push_back(row * each + place);
      batch.padded_length =
          std::max(batch.padded_length, padded_[static_cast<size_t>(batch.indices.back())]);
    }
}

}  // namespace longbow
