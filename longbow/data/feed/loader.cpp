#include "longbow/data/feed/loader.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "longbow/core/interruption.h"

namespace longbow {
namespace {

constexpr std::chrono::milliseconds kPatience(100);  // until somebody looks for a signal

}  // namespace

struct Loader::Impl {
  struct Outcome {
    Batch batch;
    std::exception_ptr failure;
    SamplerPosition after;
  };

  Impl(std::shared_ptr<const Dataset> data, Sampler order, LoaderConfig settings, bool pins)
      : dataset(std::move(data)),
        sampler(std::move(order)),
        config(settings),
        pinned(pins),
        position(sampler.position()) {
    start_workers();
  }

  ~Impl() { stop_workers(); }

  void start_workers() {
    try {
      for (int64_t i = 0; i < config.threads; ++i) workers.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
      const auto started = workers.size();
      stop_workers();
      throw std::runtime_error(fmt::format(
          "the loader has {} of {} threads, and no more can be started ({}); lower train.threads",
          started, config.threads, error.code().message()));
    }
  }

  void stop_workers() {
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    for (auto& worker : workers) worker.join();
    workers.clear();
  }

  // What the order says next, or why it cannot.
  struct Planned {
    Plan plan;
    std::exception_ptr failure;
  };
  Planned next_plan() {
    try {
      return {.plan = sampler.next(), .failure = nullptr};
    } catch (...) {
      return {.plan = {.after = sampler.position()}, .failure = std::current_exception()};
    }
  }

  Outcome make(const Planned& planned) const {
    const auto& [plan, failure] = planned;
    if (failure) return {.batch = {}, .failure = failure, .after = plan.after};
    try {
      auto batch = collate(*dataset, plan);
      return {.batch = pinned ? batch.pinned() : std::move(batch),
              .failure = nullptr,
              .after = plan.after};
    } catch (...) {
      return {.batch = {}, .failure = std::current_exception(), .after = plan.after};
    }
  }

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return stopping || issued - delivered < config.prefetch; });
      if (stopping) return;
      auto plan = next_plan();
      auto ticket = issued++;
      auto asked_in = generation;
      lock.unlock();
      auto outcome = make(plan);
      lock.lock();
      if (asked_in == generation) ready.emplace(ticket, std::move(outcome));
      changed.notify_all();
    }
  }

  Outcome take() {
    if (workers.empty()) return make(next_plan());
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, kPatience, [this] { return ready.contains(delivered); }))
      check_interruption();
    auto outcome = std::move(ready.extract(delivered++).mapped());
    lock.unlock();
    changed.notify_all();
    return outcome;
  }

  void seek(SamplerPosition target) {
    {
      std::lock_guard lock(mutex);
      sampler.seek(target);
      position = sampler.position();
      ready.clear();
      issued = delivered = 0;
      ++generation;
    }
    changed.notify_all();
  }

  std::shared_ptr<const Dataset> dataset;
  Sampler sampler;
  LoaderConfig config;
  bool pinned;
  SamplerPosition position;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int64_t, Outcome> ready;   // by ticket
  int64_t issued = 0, delivered = 0;  // tickets
  int64_t generation = 0;             // a seek makes batches of older generations void
  bool stopping = false;
  std::vector<std::thread> workers;
};

std::vector<int64_t> lengths_of(const Dataset& dataset) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < dataset.size(); ++i) lengths.push_back(dataset.length(i));
  return lengths;
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, Sampler sampler, LoaderConfig config,
               bool pinned)
    : impl_(std::make_unique<Impl>(std::move(dataset), std::move(sampler), config, pinned)) {}
Loader::~Loader() = default;

Batch Loader::next() {
  auto outcome = impl_->take();
  impl_->position = outcome.after;
  if (outcome.failure) std::rethrow_exception(outcome.failure);
  return std::move(outcome.batch);
}

int64_t Loader::batches_per_epoch() const {
  return impl_->sampler.batches_per_epoch();
}
SamplerPosition Loader::position() const {
  return impl_->position;
}
void Loader::seek(SamplerPosition position) {
  impl_->seek(position);
}

}  // namespace longbow
