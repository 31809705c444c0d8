// The device cuda:0 of LibTorch in host memory, for programs that do not link LibTorch's CUDA half:
// tensors lie in pages of their own, what follows them cannot be touched, and an operator without a
// kernel for a GPU does on the same memory what it does on a CPU. With the kernels that
// tests/emulation/block.h runs, code for a GPU can be tested where there is none.
#include <ATen/ATen.h>
#include <ATen/AccumulateType.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <malloc.h>
#include <sys/mman.h>
#include <torch/library.h>

#include <climits>

namespace longbow::emulation {
namespace {

using at::Tensor;

constexpr size_t kPage = 4096;
const at::Device kDevice(at::kCUDA, 0);

size_t up_to(size_t multiple, size_t bytes) {
  return (bytes + multiple - 1) / multiple * multiple;
}

// The last bytes before a page that nobody may touch, at a multiple of 16.
class Memory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, kDevice};
    const size_t length = up_to(kPage, bytes) + kPage;
    void* const pages = mmap(nullptr, length, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    TORCH_CHECK(pages != MAP_FAILED, "emulated GPU: no memory for ", bytes, " bytes");
    auto* const end = static_cast<unsigned char*>(pages) + length - kPage;
    mprotect(end, kPage, PROT_NONE);
    return {end - up_to(16, bytes), new Pages{pages, length}, free_pages, kDevice};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

 private:
  struct Pages {
    void* first;
    size_t length;
  };
  static void free_pages(void* given) {
    const std::unique_ptr<Pages> pages(static_cast<Pages*>(given));
    munmap(pages->first, pages->length);
  }
};
Memory memory;
// The C library would give memory of a CPU back to the system after each use, and ask for it again.
const bool keeps = [] {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  mallopt(M_ARENA_MAX, 1);
  return true;
}();
const bool allocates = (c10::SetAllocator(at::kCUDA, &memory), true);

// One device with one stream.
struct Guard final : c10::impl::NoOpDeviceGuardImpl<at::kCUDA> {
  at::Device exchangeDevice(at::Device) const override { return kDevice; }
  at::Device getDevice() const override { return kDevice; }
  c10::Stream getStream(at::Device) const noexcept override { return the_stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return the_stream(); }

 private:
  static c10::Stream the_stream() { return c10::Stream(c10::Stream::DEFAULT, kDevice); }
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard)

struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  at::DeviceIndex deviceCount() const override { return 1; }
  at::DeviceIndex getCurrentDevice() const override { return 0; }
  bool hasPrimaryContext(at::DeviceIndex) const override { return true; }
};
using at::CUDAHooksRegistry, at::RegistererCUDAHooksRegistry;
C10_REGISTER_TYPED_CLASS(CUDAHooksRegistry, "CUDAHooks", Hooks)

// The same memory as a tensor on the CPU.
Tensor on_host(const Tensor& x) {
  if (!x.defined() || !x.is_cuda()) return x;
  auto alias = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(c10::Storage::use_byte_size_t(), x.storage().nbytes(),
                   c10::DataPtr(x.storage().mutable_data(), at::kCPU), at::getCPUAllocator(),
                   /*resizable=*/true),
      c10::DispatchKeySet(c10::DispatchKey::CPU), x.dtype());
  alias.unsafeGetTensorImpl()->set_sizes_and_strides(x.sizes(), x.strides(), x.storage_offset());
  if (x.is_conj()) alias._set_conj(true);
  if (x.is_neg()) alias._set_neg(true);
  return alias;
}

// What an operator returned, on the device.
Tensor on_device(const Tensor& x) {
  if (!x.defined() || x.is_cuda()) return x;
  const auto dense = x.is_non_overlapping_and_dense() ? x : x.contiguous();
  auto there = at::empty_strided(dense.sizes(), dense.strides(), x.options().device(kDevice));
  if (x.numel() > 0) std::memcpy(there.mutable_data_ptr(), dense.const_data_ptr(), x.nbytes());
  return there;
}

// A tensor that the operator gave another size, as `out` may be.
void take_size(const Tensor& x, const Tensor& alias) {
  if (x.const_data_ptr() == alias.const_data_ptr() && x.sizes() == alias.sizes()) return;
  const auto whole = on_device(alias);
  x.unsafeGetTensorImpl()->set_storage_keep_dtype(whole.storage());
  x.unsafeGetTensorImpl()->set_sizes_and_strides(whole.sizes(), whole.strides());
}

struct Alias {
  Tensor device, host;
};

c10::IValue host_value(const c10::IValue& value, std::vector<Alias>& aliases) {
  const auto aliased = [&](const Tensor& x) {
    if (!x.defined() || !x.is_cuda()) return x;
    aliases.push_back({x, on_host(x)});
    return aliases.back().host;
  };
  if (value.isTensor()) return aliased(value.toTensor());
  if (value.isDevice()) return value.toDevice().is_cuda() ? at::Device(at::kCPU) : value.toDevice();
  if (value.isTensorList()) {
    std::vector<Tensor> all;
    for (const Tensor& x : value.toTensorVector()) all.push_back(aliased(x));
    return all;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> all;
    for (const std::optional<Tensor>& x : value.toOptionalTensorVector())
      all.push_back(x ? std::optional(aliased(*x)) : x);
    return all;
  }
  return value;
}

c10::IValue device_value(const c10::IValue& value, const std::vector<Alias>& aliases) {
  const auto moved = [&](const Tensor& x) {
    for (const auto& [device, host] : aliases)
      if (x.is_same(host)) return device;
    return on_device(x);
  };
  if (value.isTensor()) return moved(value.toTensor());
  if (!value.isTensorList()) return value;
  std::vector<Tensor> all;
  for (const Tensor& x : value.toTensorVector()) all.push_back(moved(x));
  return all;
}

void on_the_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  for (const auto& returned : schema.returns())
    TORCH_CHECK(!returned.alias_info() || returned.alias_info()->isWrite(),
                "emulated GPU: no kernel for the view ", op.operator_name());
  const size_t count = schema.arguments().size(), first = stack->size() - count;
  std::vector<Alias> aliases;
  for (size_t i = first; i < stack->size(); ++i) (*stack)[i] = host_value((*stack)[i], aliases);
  op.callBoxed(stack);
  for (const auto& [device, host] : aliases) take_size(device, host);
  for (size_t i = first; i < stack->size(); ++i) (*stack)[i] = device_value((*stack)[i], aliases);
}

Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                     std::optional<at::ScalarType> type, std::optional<at::Layout>,
                     std::optional<at::Device>, std::optional<bool>) {
  const auto number = at::dtype_or_default(type);
  auto made = at::detail::empty_strided_generic(
      size, stride, &memory, c10::DispatchKeySet(c10::DispatchKey::CUDA), number);
  if (at::globalContext().deterministicFillUninitializedMemory() && made.numel() > 0 &&
      made.storage().nbytes() > 0)
    std::memset(made.storage().mutable_data(), 0xff, made.storage().nbytes());
  return made;
}
Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type,
             std::optional<at::Layout> layout, std::optional<at::Device> device,
             std::optional<bool> pin, std::optional<at::MemoryFormat>) {
  return empty_strided(size, c10::contiguous_strides(size), type, layout, device, pin);
}

Tensor& copy(Tensor& to, const Tensor& from, bool) {
  on_host(to).copy_(on_host(from));
  return to;
}

const Tensor& resize(const Tensor& x, at::IntArrayRef size, std::optional<at::MemoryFormat>) {
  if (x.sizes() != size) {
    const auto whole = at::empty(size, x.options());
    x.unsafeGetTensorImpl()->set_storage_keep_dtype(whole.storage());
    x.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  }
  return x;
}

Tensor& set_storage(Tensor& x, at::Storage storage, int64_t offset, at::IntArrayRef size,
                    at::IntArrayRef stride) {
  auto* const impl = x.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_storage_offset(offset);
  impl->set_sizes_and_strides(size, stride);
  return x;
}

// LibTorch's kernels of layer norm for a CPU round half types more often than those for a GPU and
// take differences of large numbers: here they compute in float64.
using Three = std::tuple<Tensor, Tensor, Tensor>;

std::optional<Tensor> in_double(const std::optional<Tensor>& x) {
  return x && x->defined() ? std::optional(on_host(*x).to(at::kDouble)) : x;
}

Three layer_norm(const Tensor& x, at::IntArrayRef shape, const std::optional<Tensor>& weight,
                 const std::optional<Tensor>& bias, double epsilon) {
  const auto [y, mean, rstd] =
      at::native_layer_norm(*in_double(x), shape, in_double(weight), in_double(bias), epsilon);
  const auto wide = at::toAccumulateType(x.scalar_type(), /*is_cuda=*/true);
  return {on_device(y.to(x.scalar_type())), on_device(mean.to(wide)), on_device(rstd.to(wide))};
}

Three layer_norm_backward(const Tensor& dy, const Tensor& x, at::IntArrayRef shape,
                          const Tensor& mean, const Tensor& rstd,
                          const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
                          std::array<bool, 3> wanted) {
  const auto [dx, dweight, dbias] =
      at::native_layer_norm_backward(*in_double(dy), *in_double(x), shape, *in_double(mean),
                                     *in_double(rstd), in_double(weight), in_double(bias), wanted);
  const auto back = [&](const Tensor& one) {
    return one.defined() ? on_device(one.to(x.scalar_type())) : one;
  };
  return {back(dx), back(dweight), back(dbias)};
}

TORCH_LIBRARY_IMPL(_, CUDA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_host>());
}
TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("copy_", copy);
  m.impl("resize_", resize);
  m.impl("native_layer_norm", layer_norm);
  m.impl("native_layer_norm_backward", layer_norm_backward);
  // These would call what only a GPU has.
  for (const char* name : {"convolution", "convolution_backward"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&on_the_host>());
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("view_as_complex", at::native::view_as_complex);
}

}  // namespace
}  // namespace longbow::emulation
