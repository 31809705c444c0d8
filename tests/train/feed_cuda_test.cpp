#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDAGuard.h>

#include "tests/train/feeding.h"

namespace longbow {
namespace {

TEST(FeedCuda, GivesTheBatchesOfTheSamplerAndGoesOnAnywhere) {
  const auto list = numbered_samples();
  for (const int64_t resident : {int64_t{0}, resident_bytes(*list)}) {
    Feed feed(list, order_of(*list), {.threads = 2}, resident, at::Device("cuda:0"));
    EXPECT_EQ(feed.resident(), resident > 0);
    expect_order(feed, *list);
  }
}

TEST(FeedCuda, ABatchArrivesWhileTheDeviceIsBusyWithAnother) {
  const auto list = numbered_samples();
  for (const int64_t resident : {int64_t{0}, resident_bytes(*list)}) {
    Feed feed(list, order_of(*list), {.threads = 2}, resident, at::Device("cuda:0"));
    feed.next();
    at::cuda::device_synchronize();
    const auto work = at::cuda::getStreamFromPool(), other = at::cuda::getStreamFromPool();
    {
      const c10::cuda::CUDAStreamGuard guard(work);
      at::cuda::sleep(int64_t{2'000'000'000});  // about a second
    }
    auto order = order_of(*list);
    order.next();
    const auto want = collate(*list, order.next());
    const c10::cuda::CUDAStreamGuard guard(other);
    const auto got = feed.next().tokens.cpu();
    EXPECT_FALSE(work.query()) << "the batch came after the work";
    EXPECT_TRUE(at::equal(got, want.tokens));
    at::cuda::device_synchronize();
  }
}

}  // namespace
}  // namespace longbow
