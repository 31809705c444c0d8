#include "longbow/data/feed/loader.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <thread>

#include "longbow/core/interruption.h"
#include "longbow/core/seed.h"

namespace longbow {
namespace {

// Sample i holds its own number; samples take unequally long to make, some fail.
struct Numbers final : Dataset {
  int64_t count = 100;
  int64_t broken = -1;
  bool slow = false;
  std::atomic<bool> stuck = false;
  int64_t size() const override { return count; }
  int64_t length(int64_t i) const override { return 1 + i % 7; }
  Sample get(int64_t i) const override {
    if (i == broken) throw std::runtime_error("sample " + std::to_string(i) + " is broken");
    while (stuck) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (slow && i % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return {
        .tokens = std::vector<int32_t>(static_cast<size_t>(length(i)), static_cast<int32_t>(i) + 1),
        .targets = {static_cast<int32_t>(i)}};
  }
};

std::shared_ptr<Numbers> numbers(int64_t broken = -1) {
  auto dataset = std::make_shared<Numbers>();
  dataset->broken = broken;
  dataset->slow = true;
  return dataset;
}

Sampler sampler_of(const Dataset& dataset) {
  return {lengths_of(dataset), {.batch_size = 4, .bucket = 2}, 1};
}

std::vector<std::vector<int64_t>> take(Loader& loader, int64_t count) {
  std::vector<std::vector<int64_t>> batches;
  for (int64_t i = 0; i < count; ++i) {
    auto targets = loader.next().targets;
    auto* data = targets.const_data_ptr<int64_t>();
    batches.emplace_back(data, data + targets.numel());
  }
  return batches;
}

TEST(Loader, KeepsTheOrderOfTheSamplerForAnyNumberOfThreads) {
  auto dataset = numbers();
  auto sampler = sampler_of(*dataset);
  std::vector<std::vector<int64_t>> wanted;
  for (int i = 0; i < 70; ++i) wanted.push_back(sampler.next().indices);
  for (int64_t threads : {0, 1, 2, 5}) {
    for (int64_t prefetch : {1, 3, 16}) {
      Loader loader(dataset, sampler_of(*dataset), {.threads = threads, .prefetch = prefetch});
      EXPECT_EQ(take(loader, 70), wanted) << threads << " threads, " << prefetch << " ahead";
    }
  }
}

TEST(Loader, ContinuesBehindAnyBatch) {
  auto dataset = numbers();
  Loader whole(dataset, sampler_of(*dataset), {.threads = 0});
  for (int64_t from = 0; from < 2 * whole.batches_per_epoch(); from += 3) {
    whole.seek({});
    Batch last;
    for (int64_t i = 0; i <= from; ++i) last = whole.next();
    EXPECT_EQ(whole.position(), last.after);
    auto wanted = take(whole, 6);
    Loader resumed(dataset, sampler_of(*dataset), {.threads = 3});
    resumed.next();
    resumed.seek(last.after);
    EXPECT_EQ(resumed.position(), last.after);
    EXPECT_EQ(take(resumed, 6), wanted);
  }
}

TEST(Loader, CountsWhatItGives) {
  auto dataset = numbers();
  Loader loader(dataset, sampler_of(*dataset), {.threads = 2});
  int64_t samples = 0, tokens = 0;
  for (int64_t i = 0; i < loader.batches_per_epoch(); ++i) {
    auto batch = loader.next();
    EXPECT_EQ(batch.epoch, 0);
    EXPECT_EQ(batch.tokens.ne(0).sum().item<int64_t>(), batch.real_tokens);
    EXPECT_EQ(batch.lengths.sum().item<int64_t>(), batch.real_tokens);
    samples += batch.samples;
    tokens += batch.real_tokens;
  }
  EXPECT_EQ(samples, 100);
  int64_t expected = 0;
  for (auto length : lengths_of(*dataset)) expected += length;
  EXPECT_EQ(tokens, expected);
  EXPECT_EQ(loader.next().epoch, 1);
}

TEST(Loader, CarriesAFailureToTheCallerAtItsBatch) {
  for (int64_t threads : {0, 2}) {
    auto dataset = numbers(17);
    auto sampler = sampler_of(*dataset);
    int64_t good = 0;
    for (auto plan = sampler.next(); std::ranges::count(plan.indices, 17) == 0;
         plan = sampler.next())
      ++good;
    Loader loader(dataset, sampler_of(*dataset), {.threads = threads});
    take(loader, good);
    try {
      loader.next();
      FAIL() << "no error";
    } catch (const std::runtime_error& failure) {
      EXPECT_STREQ(failure.what(), "sample 17 is broken");
    }
    EXPECT_EQ(loader.position(), (SamplerPosition{0, good + 1}));
    EXPECT_EQ(loader.next().epoch, 0);
  }
}

// The end of the last epoch that has a number.
TEST(Loader, CarriesAFailureOfTheOrderToTheCaller) {
  for (int64_t threads : {0, 1, 3}) {
    auto dataset = numbers();
    Loader loader(dataset, sampler_of(*dataset), {.threads = threads});
    const auto last = loader.batches_per_epoch() - 1;
    loader.seek({std::numeric_limits<int64_t>::max(), last - 1});
    loader.next();
    for (int again = 0; again < 2; ++again) {
      try {
        loader.next();
        FAIL() << "no error with " << threads << " threads";
      } catch (const UserError& error) {
        EXPECT_TRUE(std::string(error.what())
                        .starts_with("batch " + std::to_string(last + 1) +
                                     " of epoch 9223372036854775807 does not exist"))
            << error.what();
      }
    }
    loader.seek({});
    EXPECT_EQ(loader.next().epoch, 0);
  }
}

rlim_t address_space() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

TEST(Loader, SaysThatNoMoreThreadsCanBeStarted) {
  if (address_space() > rlim_t{1} << 40)
    GTEST_SKIP() << "a sanitizer has taken terabytes of addresses and wants more";
  EXPECT_EXIT(
      {
        rlimit limit{};
        getrlimit(RLIMIT_AS, &limit);
        limit.rlim_cur = address_space() + (rlim_t{64} << 20);
        setrlimit(RLIMIT_AS, &limit);
        auto dataset = numbers();
        try {
          Loader loader(dataset, sampler_of(*dataset), {.threads = 256});
        } catch (const std::runtime_error& failure) {
          std::fprintf(stderr, "%s", failure.what());
          std::exit(0);
        }
        std::exit(1);
      },
      testing::ExitedWithCode(0),
      "^the loader has [0-9]+ of 256 threads, and no more can be started "
      "\\(Resource temporarily unavailable\\); lower train.threads$");
}

TEST(Loader, AWaitEndsWhereASignalAsksForIt) {
  auto dataset = numbers();
  dataset->count = 8;
  dataset->stuck = true;
  InterruptionGuard guard;
  Loader loader(dataset, sampler_of(*dataset), {.threads = 1});
  std::raise(SIGTERM);
  EXPECT_THROW(loader.next(), Interrupted);
  dataset->stuck = false;
}

TEST(Loader, ShutsDownAtAnyMoment) {
  auto dataset = numbers();
  for (int64_t taken = 0; taken < 20; ++taken) {
    Loader loader(dataset, sampler_of(*dataset), {.threads = 4, .prefetch = 8});
    take(loader, taken);
    if (taken % 2 == 0) loader.seek({3, 1});
  }
}

TEST(Loader, GivesTheSameBatchesAfterManySeeks) {
  auto dataset = numbers();
  Loader calm(dataset, sampler_of(*dataset), {.threads = 0});
  Loader hasty(dataset, sampler_of(*dataset), {.threads = 4, .prefetch = 8});
  Stream stream(1, "seeks");
  for (int i = 0; i < 60; ++i) {
    SamplerPosition position{stream.below(4), stream.below(calm.batches_per_epoch())};
    calm.seek(position);
    hasty.seek(position);
    auto count = stream.below(4);
    EXPECT_EQ(take(hasty, count), take(calm, count));
  }
}

}  // namespace
}  // namespace longbow
