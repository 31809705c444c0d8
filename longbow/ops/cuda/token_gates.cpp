#include "longbow/ops/token_gates.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/kernels/token_gates.h"
#include "longbow/ops/cuda/rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

kernels::GateRows rows_of(const Tensor& rows) {
  return {const_cast<void*>(rows.const_data_ptr()), rows.stride(0)};
}
Tensor like(const Tensor& x) {
  return at::empty(x.sizes(), x.options());
}
void* stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

// The tensors that a task points to.
struct Product {
  Tensor x, gate;
  Product(const Tensor& factor, const Tensor& gates)
      : x(token_rows(factor)), gate(token_rows(gates)) {}
  kernels::SiluProduct task() const {
    return {.type = element_of(x),
            .tokens = x.size(0),
            .width = x.size(1),
            .x = rows_of(x),
            .gate = rows_of(gate),
            .y = {}};
  }
};
struct Step {
  Tensor x, update, candidate, added;
  Step(const Tensor& before, const Tensor& gates, const Tensor& wanted, const Tensor& more)
      : x(token_rows(before)),
        update(token_rows(gates)),
        candidate(token_rows(wanted)),
        added(token_rows(more)) {}
  kernels::GatedStep task() const {
    return {.type = element_of(x),
            .tokens = x.size(0),
            .width = x.size(1),
            .x = rows_of(x),
            .update = rows_of(update),
            .candidate = rows_of(candidate),
            .added = rows_of(added),
            .y = {}};
  }
};
kernels::GateRows whole(const Tensor& x) {  // of a tensor without gaps
  return {x.mutable_data_ptr(), x.size(-1)};
}

Tensor product(const Tensor& x, const Tensor& gate) {
  if (!has_gate_kernel(x)) return silu_product_formula(x, gate);
  const c10::cuda::CUDAGuard guard(x.device());
  const Product given(x, gate);
  const auto y = like(x);
  auto task = given.task();
  task.y = whole(y);
  kernels::silu_product_cuda(task, stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

Two product_backward(const Tensor& given_dy, const Tensor& x, const Tensor& gate) {
  const c10::cuda::CUDAGuard guard(x.device());
  const Product given(x, gate);
  const auto dy = token_rows(given_dy), dx = like(x), dgate = like(x);
  kernels::silu_product_backward_cuda(
      {.past = given.task(), .dy = rows_of(dy), .dx = whole(dx), .dgate = whole(dgate)}, stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dx, dgate};
}

Tensor step(const Tensor& x, const Tensor& update, const Tensor& candidate, const Tensor& added) {
  if (!has_gate_kernel(x)) return gated_step_formula(x, update, candidate, added);
  const c10::cuda::CUDAGuard guard(x.device());
  const Step given(x, update, candidate, added);
  const auto y = like(x);
  auto task = given.task();
  task.y = whole(y);
  kernels::gated_step_cuda(task, stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

Three step_backward(const Tensor& given_dy, const Tensor& x, const Tensor& update,
                    const Tensor& candidate, const Tensor& added) {
  const c10::cuda::CUDAGuard guard(x.device());
  const Step given(x, update, candidate, added);
  const auto dy = token_rows(given_dy), dx = like(x), dupdate = like(x), dcandidate = like(x);
  kernels::gated_step_backward_cuda({.past = given.task(),
                                     .dy = rows_of(dy),
                                     .dx = whole(dx),
                                     .dupdate = whole(dupdate),
                                     .dcandidate = whole(dcandidate)},
                                    stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dx, dupdate, dcandidate};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("silu_product", product);
  m.impl("silu_product_backward", product_backward);
  m.impl("gated_step", step);
  m.impl("gated_step_backward", step_backward);
}

}  // namespace
}  // namespace longbow
