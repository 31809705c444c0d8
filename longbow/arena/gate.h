#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "longbow/core/config.h"
#include "longbow/nn/contract/mixer.h"

namespace longbow::arena {

inline constexpr int64_t kGateWidth = 16;

// The layers that a mechanism is to be checked for.
struct GateSite {
  int64_t heads = 2;
  std::vector<int64_t> lengths = {};
};

// A short form of the laws, on a small layer: padding invisible, future invisible, rows
// independent. What is broken, or "" when nothing is; a mechanism that breaks a promise is not
// timed. Options that fit none of these layers break nothing: who builds one says what is wrong.
std::string broken_promise(const Node& options, const GateSite& timed = {});
std::string broken_promise(MixerImpl& mixer, int64_t width = kGateWidth);  // in float64

}  // namespace longbow::arena
