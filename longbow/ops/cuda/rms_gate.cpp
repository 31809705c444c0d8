#include "longbow/ops/rms_gate.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/kernels/rms_gate.h"
#include "longbow/ops/cuda/rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

bool fits(const Tensor& x, at::ScalarType type) {
  return has_rms_gate_kernel(x) &&
         (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf);
}

// The arguments as the kernels read them, which must outlive the task.
struct Rows {
  Tensor x, gain, gate;

  Rows(const Tensor& given_x, const Tensor& given_gain, const Maybe& given_gate)
      : x(dense_rows(given_x)),
        gain(dense_rows(given_gain.to(at::kFloat))),
        gate(given_gate ? dense_rows(given_gate->to(at::kFloat)) : Tensor()) {}
  kernels::RmsGate task(const Tensor& like, double epsilon) const {
    return {.type = element_of(like),
            .rows = x.numel() / x.size(-1),
            .width = x.size(-1),
            .x = x.const_data_ptr<float>(),
            .gain = gain.const_data_ptr<float>(),
            .gate = gate.defined() ? gate.const_data_ptr<float>() : nullptr,
            .epsilon = epsilon};
  }
};

Tensor forward(const Tensor& x, const Tensor& gain, const Maybe& gate, double epsilon,
               at::ScalarType type) {
  if (!fits(x, type)) return rms_gate_formula(x, gain, gate.value_or(Tensor()), epsilon).to(type);
  const c10::cuda::CUDAGuard guard(x.device());
  const Rows rows(x, gain, gate);
  const auto y = at::empty(x.sizes(), x.options().dtype(type));
  kernels::rms_gate_cuda({.past = rows.task(y, epsilon), .y = y.mutable_data_ptr()},
                         c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

Three backward(const Tensor& given_dy, const Tensor& x, const Tensor& gain, const Maybe& gate,
               double epsilon) {
  if (!fits(x, given_dy.scalar_type())) {
    const auto d = rms_gate_formula_backward(given_dy, x, gain, gate.value_or(Tensor()), epsilon);
    return {d.x, d.gain, d.gate.defined() ? d.gate : at::empty({0}, gain.options())};
  }
  const c10::cuda::CUDAGuard guard(x.device());
  const Rows rows(x, gain, gate);
  const auto dy = dense_rows(given_dy), dx = at::empty(x.sizes(), x.options());
  const auto task = rows.task(dy, epsilon);
  const int64_t blocks = kernels::rms_gate_blocks(task.rows);
  const auto parts = at::empty({blocks, 2, task.width}, rows.x.options());
  kernels::rms_gate_backward_cuda({.past = task,
                                   .dy = dy.const_data_ptr(),
                                   .dx = dx.mutable_data_ptr<float>(),
                                   .blocks = blocks,
                                   .dparameters = parts.mutable_data_ptr<float>()},
                                  c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const auto sums = parts.sum(0);
  return {dx, sums[0].to(gain.scalar_type()), sums[1].to((gate ? *gate : gain).scalar_type())};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("rms_gate", forward);
  m.impl("rms_gate_backward", backward);
}

}  // namespace
}  // namespace longbow
