#pragma once
// The passes of feature_product.h over heads of up to 32 channels.
#include "longbow/kernels/feature_product.h"

namespace longbow::kernels {

void narrow_sums_cuda(const FeatureSums& task, void* stream) noexcept;
void narrow_read_cuda(const FeatureRead& task, void* stream) noexcept;
void narrow_gradient_cuda(const FeatureGradient& task, void* stream) noexcept;

}  // namespace longbow::kernels
