#include "longbow/kernels/cuda/mixture_backward.h"
#include "longbow/kernels/cuda/mixture_forward.h"

namespace longbow::kernels {

void slot_mixture_cuda(const SlotMixture& task, void* stream) noexcept {
  mixture::mix_all<mixture::Rule::softmax>(task, stream);
}

void slot_mixture_backward_cuda(const SlotMixtureBackward& task, void* stream) noexcept {
  mixture::differentiate_all<mixture::Rule::softmax>(task, stream);
}

}  // namespace longbow::kernels
