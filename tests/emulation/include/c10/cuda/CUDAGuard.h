#pragma once
#include <c10/core/Device.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

namespace c10::cuda {

struct CUDAGuard {
  explicit CUDAGuard(Device) {}
  ~CUDAGuard() {}
};

struct CUDAStreamGuard {
  explicit CUDAStreamGuard(CUDAStream) {}
  ~CUDAStreamGuard() {}
};

}  // namespace c10::cuda
