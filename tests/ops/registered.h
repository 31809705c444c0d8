#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

namespace longbow {

// The dispatch keys among CPU, Meta and Autograd (and CUDA, where it is built) for which an
// operator has no kernel, "" when there is none: what nobody registered, callers outside of C++
// cannot use.
inline std::string missing_kernels(const std::string& name, bool differentiable = true) {
  const auto op = c10::Dispatcher::singleton().findSchema({"longbow::" + name, ""});
  if (!op) return "schema";
  std::vector<c10::DispatchKey> keys = {c10::DispatchKey::CPU, c10::DispatchKey::Meta};
#ifdef LONGBOW_CUDA
  keys.push_back(c10::DispatchKey::CUDA);
#endif
  std::string missing;
  for (const auto key : keys)
    if (!op->hasKernelForDispatchKey(key)) missing += std::string(c10::toString(key)) + " ";
  if (differentiable && !op->hasKernelForDispatchKey(c10::DispatchKey::Autograd))
    missing += "Autograd";
  return missing;
}

}  // namespace longbow
