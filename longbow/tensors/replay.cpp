#include "longbow/tensors/replay.h"

#ifdef LONGBOW_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <map>
#endif

namespace longbow {
namespace {

class Direct : public Replay {
 public:
  void run(const std::string&, const std::function<void()>& body) override { body(); }
  bool captures() const override { return false; }
};

#ifdef LONGBOW_CUDA
// All graphs share one pool: they never run at the same time, and none keeps an output beyond its
// replay but in tensors that were there before.
class Graphs : public Replay {
 public:
  explicit Graphs(at::Device device)
      : before_(c10::cuda::getCurrentCUDAStream(device.index())),
        stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {
    go_on(before_, stream_);  // everything in between must be in order with us
  }
  ~Graphs() override {
    if (c10::cuda::getCurrentCUDAStream(stream_.device_index()) == stream_) go_on(stream_, before_);
  }
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  void run(const std::string& key, const std::function<void()>& body) override {
    auto& entry = entries_[key];
    if (entry.graph) {
      entry.graph->replay();
      return;
    }
    if (++entry.seen == 1) {
      body();
      return;
    }
    // What the first run left in the cache is of no use to the graph, which has a pool of its own,
    // and nothing can be released while it is captured.
    c10::cuda::CUDACachingAllocator::emptyCache();
    auto graph = std::make_unique<at::cuda::CUDAGraph>();
    // Loader threads may pin memory meanwhile.
    graph->capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
    try {
      body();
    } catch (...) {
      graph->capture_end();
      throw;
    }
    graph->capture_end();
    graph->replay();
    entry.graph = std::move(graph);
  }
  bool captures() const override { return true; }

 private:
  struct Entry {
    int seen = 0;
    std::unique_ptr<at::cuda::CUDAGraph> graph;
  };
  // What comes next is done on another stream, after what was begun on this one.
  static void go_on(const c10::cuda::CUDAStream& from, const c10::cuda::CUDAStream& to) {
    at::cuda::CUDAEvent done;
    done.record(from);
    done.block(to);
    c10::cuda::setCurrentCUDAStream(to);
  }

  c10::cuda::CUDAStream before_, stream_;
  at::cuda::MempoolId_t pool_ = at::cuda::graph_pool_handle();
  std::map<std::string, Entry> entries_;
};
#endif

}  // namespace

std::unique_ptr<Replay> make_replay(at::Device device, bool graphs) {
#ifdef LONGBOW_CUDA
  if (device.is_cuda() && graphs) return std::make_unique<Graphs>(device);
#endif
  (void)device;
  (void)graphs;
  return std::make_unique<Direct>();
}

}  // namespace longbow
