#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>

namespace longbow {

// Device work that is the same every time but for the contents of its tensors. On a GPU a body runs
// as it is the first time its key is seen, is captured the second time, and replayed from then on:
// its tensors must stay where they are. Elsewhere it always runs as it is.
class Replay {
 public:
  virtual ~Replay() = default;
  virtual void run(const std::string& key, const std::function<void()>& body) = 0;
  // Whether tensors that a body reads must be copied to where they were the first time.
  virtual bool captures() const = 0;
};

std::unique_ptr<Replay> make_replay(at::Device device, bool graphs);

}  // namespace longbow
