#pragma once
#include <c10/core/Device.h>

#include <string>

namespace longbow::cli {

// "cpu", "cuda" or "cuda:1"; UserError for anything else and for a CUDA that is not there.
c10::Device parse_device(const std::string& text);

// "a, b, c" of the machine that runs: processor, and the GPU when it is used.
std::string machine_of(c10::Device device);

}  // namespace longbow::cli
