#pragma once
// A norm by the root of the mean square, with a gain and a gate, of rows of float32;
// ops/rms_gate.h defines it.
#include <cstdint>

#include "longbow/kernels/element.h"

namespace longbow::kernels {

constexpr int64_t kMostGatedWidth = 1024;

struct RmsGate {
  Element type;         // of y and dy
  int64_t rows, width;  // width a multiple of 4
  const float* x;       // [rows, width]
  const float* gain;    // [width]
  const float* gate;    // [width], or null: no gate
  double epsilon;
};

struct RmsGateForward {
  RmsGate past;
  void* y;  // [rows, width]
};

struct RmsGateBackward {
  RmsGate past;
  const void* dy;      // [rows, width]
  float* dx;           // [rows, width]
  int64_t blocks;      // that share the rows
  float* dparameters;  // [blocks, 2, width]: of gain and gate, to be added up
};

// How many thread blocks best share so many rows.
int64_t rms_gate_blocks(int64_t rows) noexcept;

void rms_gate_cuda(const RmsGateForward& task, void* stream) noexcept;
void rms_gate_backward_cuda(const RmsGateBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels
