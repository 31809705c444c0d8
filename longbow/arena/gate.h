#pragma once
#include <string>

#include "longbow/core/config.h"
#include "longbow/nn/contract/mixer.h"

namespace longbow::arena {

inline constexpr int64_t kGateWidth = 16;

// A short form of the laws, on a small layer: padding invisible, future invisible, rows
// independent. What is broken, or "" when nothing is; a mechanism that breaks a promise is not
// timed.
std::string broken_promise(const Node& options);
std::string broken_promise(MixerImpl& mixer);  // of width kGateWidth, in float64

}  // namespace longbow::arena
