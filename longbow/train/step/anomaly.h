#pragma once
// Where numbers stop being finite: the first operation whose output is not, with the module whose
// parameters it reads, and the first parameter whose gradient is not. It waits for the device
// after every operation, and is for looking into a failure.
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "longbow/train/optimizers/weights.h"

namespace longbow {

class Anomaly {
 public:
  explicit Anomaly(const std::vector<Weight>& weights);
  ~Anomaly();
  Anomaly(const Anomaly&) = delete;
  Anomaly& operator=(const Anomaly&) = delete;

  void restart();  // forgets what was found
  void watch(const std::function<void()>& forward);
  // "encoder.layers.0.mixer.query (aten::linear)" and "encoder.layers.0.mixer.query.weight"; empty
  // when all was finite. A hidden score is minus infinity: that counts only in the output of an
  // operation that reads a parameter.
  const std::string& output() const { return output_; }
  const std::string& gradient() const { return gradient_; }

  // Called by the observer, around each operation that no other one contains.
  void begin() { own_ = false; }
  void reads(const Tensor& tensor);
  void gives(const char* operation, const Tensor& tensor);

 private:
  std::unordered_map<const void*, std::string> modules_;  // by parameter
  std::vector<std::pair<Tensor, unsigned>> hooks_;
  std::string module_;  // whose parameter was read last
  bool own_ = false;    // by this operation
  std::string output_, gradient_;
  std::mutex mutex_;  // gradients come from threads of the device
};

}  // namespace longbow
