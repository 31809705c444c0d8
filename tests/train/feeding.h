#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/train/step/feed.h"

namespace longbow {

// Pairs of 20 lengths, each sample made of its own number.
inline std::shared_ptr<const Dataset> numbered_samples() {
  std::vector<Sample> samples;
  for (int32_t i = 1; i <= 50; ++i)
    samples.push_back({.tokens = std::vector<int32_t>(static_cast<size_t>(i % 20 + 1), i),
                       .targets = {i},
                       .second = std::vector<int32_t>(static_cast<size_t>(i % 7 + 1), i + 50)});
  return std::make_shared<SampleList>(samples, false);
}

inline Sampler order_of(const Dataset& dataset) {
  return {lengths_of(dataset), {.batch_size = 4, .bucket = 8}, 3};
}

// Two epochs from the start, then once more from behind the fifth batch.
inline void expect_order(Feed& feed, const Dataset& dataset) {
  auto order = order_of(dataset);
  EXPECT_EQ(feed.batches_per_epoch(), order.batches_per_epoch());
  const auto expect_next = [&] {
    auto got = feed.next(), want = collate(dataset, order.next());
    EXPECT_EQ(got.after, want.after);
    EXPECT_EQ(got.real_tokens, want.real_tokens);
    const auto ours = got.tensors(), theirs = want.tensors();
    ASSERT_EQ(ours.size(), theirs.size());
    for (size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(at::equal(ours[i]->cpu(), *theirs[i]));
  };
  SamplerPosition fifth;
  for (int64_t i = 0; i < 2 * order.batches_per_epoch(); ++i) {
    expect_next();
    if (i == 4) fifth = order.position();
  }
  order.seek(fifth);
  feed.seek(fifth);
  for (int i = 0; i < 5; ++i) expect_next();
}

}  // namespace longbow
