#pragma once
// ops/time_steps.h of bfloat16; all else is float32. A thread has one head and walks over tokens.
#include <cstdint>

namespace longbow::kernels {

constexpr int64_t kMostSteppingHeads = 1024;

struct TimeSteps {
  const void* dt;  // [batch, tokens, heads] with the strides
  int64_t dt_batch, dt_token;
  const float *bias, *log_rate;  // [heads]
  const bool* keep;              // [batch, tokens], or null
  float *step, *log_decay;       // [batch, tokens, heads]
  int64_t batch, tokens, heads;
  float least, most;
};

struct TimeStepsBackward {
  TimeSteps past;                   // step and log_decay are not read
  const float *dstep, *dlog_decay;  // [batch, tokens, heads]
  void* ddt;                        // [batch, tokens, heads]
  float* sums;                      // [parts, 2, heads]: of dbias, of dlog_rate
  int64_t parts;
};

// How many sums of dbias and dlog_rate there are.
int64_t time_steps_parts(int64_t tokens, int64_t heads) noexcept;

void time_steps_cuda(const TimeSteps& task, void* stream) noexcept;
void time_steps_backward_cuda(const TimeStepsBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels
