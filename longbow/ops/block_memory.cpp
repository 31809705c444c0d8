#include "longbow/ops/block_memory.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <torch/library.h>

namespace longbow {
namespace {

int64_t none(const at::Tensor&) {
  return 0;
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("block_memory(Tensor x) -> int");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("block_memory", none);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("block_memory", none);
}

}  // namespace

int64_t block_memory(const at::Tensor& x) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::block_memory", "")
                             .typed<int64_t(const at::Tensor&)>();
  const at::DisableRecordFunctionGuard unseen;  // a question is no work: profiles do not count it
  return op.call(x);
}

}  // namespace longbow
