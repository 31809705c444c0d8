// Units are to tokens what slots are, with f(score) in place of a softmax.
#include "longbow/kernels/perceptron.h"

#include "longbow/kernels/cuda/mixture_backward.h"
#include "longbow/kernels/cuda/mixture_forward.h"

namespace longbow::kernels {

using mixture::Rule;

void perceptron_cuda(Curve curve, const SlotMixture& task, void* stream) noexcept {
  if (curve == Curve::gelu) return mixture::mix_all<Rule::gelu>(task, stream);
  mixture::mix_all<Rule::relu>(task, stream);
}

void perceptron_backward_cuda(Curve curve, const SlotMixtureBackward& task, void* stream) noexcept {
  if (curve == Curve::gelu) return mixture::differentiate_all<Rule::gelu>(task, stream);
  mixture::differentiate_all<Rule::relu>(task, stream);
}

}  // namespace longbow::kernels
