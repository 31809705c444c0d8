#pragma once
// What the kernels of philox and dropout are given, checked, for every device.
#include <ATen/core/Tensor.h>

#include "longbow/kernels/dropout.h"
#include "longbow/kernels/philox.h"

namespace longbow {

void check_key(const at::Tensor& key, const char* who);
// Uninitialised numbers beside the key.
at::Tensor empty_draw(const at::Tensor& key, at::IntArrayRef shape);
kernels::PhiloxWindow window_task(const at::Tensor& key, int64_t site, int64_t rows,
                                  int64_t columns, int64_t row, int64_t column,
                                  const at::Tensor& out);
// x without gaps and y as large.
kernels::Dropout dropout_task(const at::Tensor& x, const at::Tensor& y, const at::Tensor& key,
                              int64_t site, double rate);

}  // namespace longbow
