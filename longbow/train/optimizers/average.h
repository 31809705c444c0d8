#pragma once
#include <string>
#include <vector>

#include "longbow/core/fields.h"
#include "longbow/train/optimizers/weights.h"

namespace longbow {

struct AverageConfig {
  double ema = 0;
  bool ema_corrected = true;
};
template <class V>
void fields(V& v, AverageConfig& c) {
  v("ema", c.ema,
    "decay of a moving average of the weights, which is then evaluated and saved as the model; 0 = "
    "none",
    range(0, 0.9999999));
  v("ema_corrected", c.ema_corrected,
    "exclude the initial weights from the average; false: it starts with them");
}

// A moving average of the weights: a += (1 - decay) (w - a), divided by 1 - decay^steps when
// corrected. Nothing in it waits for the device.
class Average {
 public:
  Average(const std::vector<Weight>& weights, const AverageConfig& config);
  // Takes in the weights as they are now, unless `skip` (undefined, or 1 where nothing may change).
  void update(const Tensor& skip);
  void exchange();        // the values become the average and the average the values
  Tensors state() const;  // for a checkpoint
  void load(const Tensors& state);

 private:
  AverageConfig config_;
  std::vector<std::string> names_;
  std::vector<Tensor> values_, averages_;
  Tensor steps_;  // [] taken in
};

}  // namespace longbow
