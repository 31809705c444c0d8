#pragma once
// Batches in the sampler's order, whatever the number of threads that collate them ahead of time.
#include <cstdint>
#include <memory>
#include <vector>

#include "longbow/data/feed/batch.h"

namespace longbow {

struct LoaderConfig {
  int64_t threads = 2;   // 0: collate in the caller's thread
  int64_t prefetch = 4;  // batches under way or waiting
};
template <class V>
void fields(V& v, LoaderConfig& c) {
  v("threads", c.threads, "threads that prepare batches; 0 = the trainer's own", range(0, 256));
  v("prefetch", c.prefetch, "batches prepared ahead", range(1, 1024));
}

std::vector<int64_t> lengths_of(const Dataset& dataset);

class Loader {
 public:
  // `pinned`: in memory that a GPU copies from without anybody waiting.
  Loader(std::shared_ptr<const Dataset> dataset, Sampler sampler, LoaderConfig config = {},
         bool pinned = false);
  ~Loader();  // drops what is under way
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  Batch next();  // rethrows what a thread threw while it made this batch
  int64_t batches_per_epoch() const;
  SamplerPosition position() const;  // of the batch that next() gives
  void seek(SamplerPosition position);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace longbow
