#include "longbow/cli/device.h"

#include <ATen/Context.h>
#ifdef LONGBOW_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

#include "longbow/core/error.h"
#include "longbow/core/version.h"

namespace longbow::cli {

c10::Device parse_device(const std::string& text) {
  const bool numbered = text.rfind("cuda:", 0) == 0 && text.size() > 5 &&
                        text.find_first_not_of("0123456789", 5) == std::string::npos;
  if (text == "cpu") return c10::kCPU;
  if (text != "cuda" && !numbered)
    throw UserError(Place{"--device", 0}, "unknown device '" + text + "'",
                    "one of: cpu, cuda, cuda:1");
  if (!at::hasCUDA())
    throw UserError(Place{"--device", 0}, "no CUDA device can be used here",
                    "build with ./check --cuda on a machine with a GPU, or use cpu");
  return c10::Device(numbered ? text : "cuda:0");
}

std::string machine_of(c10::Device device) {
#ifdef LONGBOW_CUDA
  if (device.is_cuda()) return std::string(at::cuda::getDeviceProperties(device.index())->name);
#endif
  (void)device;
  return machine();
}

}  // namespace longbow::cli
