#pragma once
// A data set that lives on a device: a batch is gathered there, and only the indices of its samples
// travel.
#include "longbow/data/feed/batch.h"

namespace longbow {

// At most so many bytes will be needed for it.
int64_t resident_bytes(const Dataset& dataset);

class ResidentData {
 public:
  ResidentData(const Dataset& dataset, at::Device device);
  // What collate gives, without references, and without waiting for the device.
  Batch batch(const Plan& plan) const;

 private:
  // Rows of different lengths, one after the other.
  struct Rows {
    std::vector<int64_t> lengths = {};  // on the host
    at::Tensor starts = {}, sizes = {}, items = {};
    at::Tensor padded(const at::Tensor& which, int64_t columns, int64_t padding) const;
  };
  class Packer;

  at::Device device_;
  Rows tokens_, second_, segments_, token_targets_;  // without items where there are none
  at::Tensor targets_, values_;                      // [samples] or [samples, K]
};

}  // namespace longbow
