#pragma once
// The batches of a training split, in the sampler's order, on the device. They travel while the
// device works on those before: nobody waits for a copy but the work that reads it.
#include <c10/core/Stream.h>

#include <optional>

#include "longbow/data/feed/loader.h"
#include "longbow/data/feed/resident.h"

namespace longbow {

class Feed {
 public:
  // A set of at most `resident` bytes is kept on a GPU as a whole, and batches are gathered there.
  Feed(const std::shared_ptr<const Dataset>& dataset, const Sampler& sampler,
       const LoaderConfig& config, int64_t resident, at::Device device);

  Batch next();  // for the current stream
  int64_t batches_per_epoch() const { return sampler_.batches_per_epoch(); }
  void seek(SamplerPosition position);
  bool resident() const { return resident_ != nullptr; }

 private:
  Batch make();

  at::Device device_;
  std::optional<c10::Stream> stream_;  // of the copies; none on a CPU
  Sampler sampler_;                    // of the resident set
  std::unique_ptr<ResidentData> resident_;
  std::unique_ptr<Loader> loader_;
};

}  // namespace longbow
