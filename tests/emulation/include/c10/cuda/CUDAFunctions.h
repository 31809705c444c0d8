#pragma once
namespace c10::cuda {

inline void device_synchronize() {}

}  // namespace c10::cuda
