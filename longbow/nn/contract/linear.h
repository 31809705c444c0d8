#pragma once
#include <vector>

#include "longbow/nn/contract/part.h"

namespace longbow {

// y = x W^T + b.
class Linear : public Part {
 public:
  Linear(const Site& site, int64_t in, int64_t out, bool with_bias = true);
  Tensor operator()(const Tensor& x) const;
  Tensor weight, bias;  // [out, in], [out] or undefined
};

// What each of them makes of the same x, by one product; or all of it, in parts of these widths.
std::vector<Tensor> project_together(const Tensor& x, const std::vector<const Linear*>& layers);
std::vector<Tensor> project_together(const Tensor& x, const std::vector<const Linear*>& layers,
                                     at::IntArrayRef widths);

}  // namespace longbow
