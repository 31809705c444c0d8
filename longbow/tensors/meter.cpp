#include "longbow/tensors/meter.h"

#include <ATen/ATen.h>
#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>
#include <c10/core/CPUAllocator.h>

#include <cmath>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#ifdef LONGBOW_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace longbow {
namespace {

using at::Tensor;
using Values = c10::ArrayRef<c10::IValue>;

// Stands before LibTorch's own allocator, keeps the size of every block, and passes everything on.
// Blocks from before its time carry their own deleter; should one come here after all, its size is
// unknown and not counted.
class CountingAllocator final : public c10::Allocator {
 public:
  static CountingAllocator& installed() {
    static CountingAllocator* const allocator = [] {
      auto* made = new CountingAllocator(c10::GetCPUAllocator());
      c10::SetCPUAllocator(made, /*priority=*/255);
      return made;
    }();
    return *allocator;
  }

  c10::DataPtr allocate(size_t bytes) override {
    auto block = original_->allocate(bytes);
    TORCH_INTERNAL_ASSERT(block.get() == block.get_context());
    count(block.get(), static_cast<int64_t>(bytes));
    TORCH_INTERNAL_ASSERT(block.compare_exchange_deleter(original_->raw_deleter(), release));
    return block;
  }
  c10::DeleterFnPtr raw_deleter() const override { return release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    original_->copy_data(to, from, bytes);
  }

  void restart() {
    const std::lock_guard lock(mutex_);
    allocated_ = 0;
    start_ = peak_ = live_;
  }
  int64_t allocated() const { return allocated_; }
  int64_t peak() const { return peak_ - start_; }

 private:
  explicit CountingAllocator(c10::Allocator* original) : original_(original) {}

  void count(void* block, int64_t bytes) {
    if (!block) return;
    const std::lock_guard lock(mutex_);
    sizes_[block] = bytes;
    allocated_ += bytes;
    live_ += bytes;
    peak_ = std::max(peak_, live_);
  }

  static void release(void* block) {
    auto& self = installed();
    {
      const std::lock_guard lock(self.mutex_);
      if (const auto found = self.sizes_.find(block); found != self.sizes_.end()) {
        self.live_ -= found->second;
        self.sizes_.erase(found);
      }
    }
    self.original_->raw_deallocate(block);
  }

  c10::Allocator* original_;
  std::mutex mutex_;
  std::unordered_map<void*, int64_t> sizes_;
  int64_t live_ = 0, start_ = 0, peak_ = 0, allocated_ = 0;
};

double elements(const c10::IValue& value) {
  if (value.isTensor())
    return value.toTensor().defined() ? static_cast<double>(value.toTensor().numel()) : 0;
  double sum = 0;
  if (value.isTensorList())
    for (const auto& tensor : value.toTensorVector()) sum += static_cast<double>(tensor.numel());
  return sum;
}

double elements(const Tensor& tensor) {
  return static_cast<double>(tensor.numel());
}

// An expanded tensor is read once.
double bytes(const Tensor& tensor) {
  if (!tensor.defined()) return 0;
  auto size = static_cast<double>(tensor.element_size());
  for (int64_t d = 0; d < tensor.dim(); ++d)
    if (tensor.stride(d) != 0 || tensor.size(d) == 0) size *= static_cast<double>(tensor.size(d));
  return size;
}
double bytes(Values values) {
  double sum = 0;
  for (const auto& value : values) {
    if (value.isTensor()) sum += bytes(value.toTensor());
    if (value.isTensorList())
      for (const auto& tensor : value.toTensorVector()) sum += bytes(tensor);
  }
  return sum;
}

double largest(Values values) {
  double most = 0;
  for (const auto& value : values) most = std::max(most, elements(value));
  return most;
}

// Formulas for the operators whose cost is not their number of elements. `x` are the arguments, `y`
// the results.
using Formula = double (*)(Values x, Values y);

double product(const Tensor& a, const Tensor& y) {
  return 2 * elements(y) * static_cast<double>(a.size(-1));
}

double convolution(const Tensor& input, const Tensor& weight, const Tensor& output,
                   bool transposed) {
  const auto& sites = transposed ? input : output;
  return 2 * elements(sites) * elements(weight) / static_cast<double>(weight.size(0));
}

double attention(const Tensor& q, const Tensor& k, int64_t length_dimension, double products) {
  return products * 2 * elements(q) * static_cast<double>(k.size(length_dimension));
}

// Of queries x[at], keys and values: two products, one of each width, over `keys` keys each.
double tiles(Values x, size_t at, double keys) {
  const auto &q = x[at].toTensor(), &v = x[at + 2].toTensor();
  const auto rows = static_cast<double>(q.size(0) * q.size(1) * q.size(2));
  return 2 * rows * keys * static_cast<double>(q.size(3) + v.size(3));
}
double all_keys(Values x, size_t at) {
  return static_cast<double>(x[at + 1].toTensor().size(2));
}
// As many as the blocks that are listed for each query hold.
double listed_keys(Values x, size_t rule) {
  const auto columns = x[rule].toListRef()[0].toTensor();
  return static_cast<double>(columns.size(3) * x[rule + 1].toIntVector()[1]);
}
// Of queries x[at] and keys, each with `count` features: a product with the values, and, where the
// features are of a projection, one with that.
double features(Values x, size_t at, double count, bool projected) {
  const auto &q = x[at].toTensor(), &k = x[at + 1].toTensor(), &v = x[at + 2].toTensor();
  const auto tokens = static_cast<double>(q.size(0) * q.size(1) * (q.size(2) + k.size(2)));
  return 2 * tokens * count * static_cast<double>(v.size(3) + (projected ? q.size(3) : 0));
}
double turned_features(Values x, size_t at, size_t turns) {
  return static_cast<double>(x[at].toTensor().size(3) * (x[turns].isTensor() ? 2 : 1));
}
double projections(const c10::IValue& omega) {
  return static_cast<double>(omega.toTensor().size(1));
}

// Or of a head.
double taps_of_channel(const Tensor& taps) {
  return elements(taps) / static_cast<double>(taps.size(0));
}

// `count` products of square matrices as large as a, for each of the states.
double small_products(const Tensor& a, double count, const Tensor& states) {
  return count * 2 * elements(a) * static_cast<double>(a.size(-1)) *
         static_cast<double>(states.size(0));
}

// Of x, y and z, x[at] the first of them, in chunks of 64: pairs, and reads and writes of the sums;
// where blocks of columns fade, scores are common to all.
double fading_sums(Values x, size_t at) {
  constexpr double kChunk = 64;
  const auto &keys = x[at].toTensor(), &values = x[at + 2].toTensor();
  const auto p = static_cast<double>(keys.size(-1)), q = static_cast<double>(values.size(-1));
  return 2 * elements(keys) / p * (kChunk * (p + q) + 2 * p * q);
}

double transform(const Tensor& x, const Tensor& y, const c10::IValue& dimensions) {
  const auto& longer = y.numel() > x.numel() ? y : x;
  double depth = 0;
  for (const int64_t d : dimensions.toIntVector())
    depth += std::log2(std::max<double>(2, static_cast<double>(longer.size(d))));
  return 5 * elements(longer) * depth;
}

const std::unordered_map<std::string, Formula>& formulas() {
  static const Formula multiply = [](Values x, Values y) {
    return product(x[0].toTensor(), y[0].toTensor());
  };
  static const Formula multiply_add = [](Values x, Values y) {
    return product(x[1].toTensor(), y[0].toTensor());
  };
  static const Formula convolve = [](Values x, Values y) {
    return convolution(x[0].toTensor(), x[1].toTensor(), y[0].toTensor(), x[6].toBool());
  };
  static const Formula convolve_backward = [](Values x, Values) {
    return 2 * convolution(x[1].toTensor(), x[2].toTensor(), x[0].toTensor(), x[7].toBool());
  };
  static const Formula attend = [](Values x, Values) {
    return attention(x[0].toTensor(), x[1].toTensor(), 2, 2);
  };
  static const Formula attend_backward = [](Values x, Values) {
    return attention(x[1].toTensor(), x[2].toTensor(), 2, 5);
  };
  static const Formula flash = [](Values x, Values) {
    return attention(x[0].toTensor(), x[1].toTensor(), 1, 2);
  };
  static const Formula flash_backward = [](Values x, Values) {
    return attention(x[1].toTensor(), x[2].toTensor(), 1, 5);
  };
  static const Formula causal = [](Values x, Values) {
    return 4 * elements(x[0]) * static_cast<double>(x[2].toTensor().size(-1));
  };
  static const Formula fourier = [](Values x, Values y) {
    return transform(x[0].toTensor(), y[0].toTensor(), x[1]);
  };
  static const Formula read_pairs = [](Values x, Values) { return tiles(x, 0, all_keys(x, 0)); };
  static const Formula read_pairs_backward = [](Values x, Values) {
    return 2.5 * tiles(x, 1, all_keys(x, 1));
  };
  static const std::unordered_map<std::string, Formula> table = {
      {"aten::mm", multiply},
      {"aten::bmm", multiply},
      {"aten::mv", multiply},
      {"aten::dot", [](Values x, Values) { return 2 * elements(x[0]); }},
      {"aten::addmm", multiply_add},
      {"aten::baddbmm", multiply_add},
      {"aten::addmv", multiply_add},
      {"aten::convolution", convolve},
      {"aten::convolution_backward", convolve_backward},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", attend},
      {"aten::_scaled_dot_product_flash_attention", attend},
      {"aten::_scaled_dot_product_efficient_attention", attend},
      {"aten::_scaled_dot_product_cudnn_attention", attend},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", attend_backward},
      {"aten::_scaled_dot_product_flash_attention_backward", attend_backward},
      {"aten::_scaled_dot_product_efficient_attention_backward", attend_backward},
      {"aten::_scaled_dot_product_cudnn_attention_backward", attend_backward},
      {"aten::_flash_attention_forward", flash},
      {"aten::_flash_attention_backward", flash_backward},
      {"aten::_fft_r2c", fourier},
      {"aten::_fft_c2r", fourier},
      {"aten::_fft_c2c", fourier},
      {"longbow::causal_product", causal},
      {"longbow::block_softmax", [](Values x, Values) { return tiles(x, 0, listed_keys(x, 4)); }},
      {"longbow::block_softmax_backward",
       [](Values x, Values) { return 2.5 * tiles(x, 2, listed_keys(x, 9)); }},
      {"longbow::tile_attention", [](Values x, Values) { return tiles(x, 0, listed_keys(x, 3)); }},
      {"longbow::tile_attention_backward",
       [](Values x, Values) { return 2.5 * tiles(x, 1, listed_keys(x, 6)); }},
      {"longbow::rows_product",
       [](Values x, Values y) {
         return 2 * static_cast<double>(y[0].toTensor().size(0)) * elements(x[1]);
       }},
      {"longbow::columns_product",
       [](Values x, Values y) {
         return 2 * static_cast<double>(x[1].toTensor().size(0)) * elements(y[0]);
       }},
      {"longbow::exponential_features",
       [](Values x, Values) { return 2 * elements(x[0]) * projections(x[1]); }},
      {"longbow::exponential_features_backward",
       [](Values x, Values) { return 2 * elements(x[1]) * projections(x[2]); }},
      {"longbow::channel_taps",
       [](Values x, Values) { return 2 * elements(x[0]) * taps_of_channel(x[1].toTensor()); }},
      {"longbow::channel_taps_backward",
       [](Values x, Values) { return 4 * elements(x[1]) * taps_of_channel(x[2].toTensor()); }},
      {"longbow::head_filter",
       [](Values x, Values) { return 2 * elements(x[0]) * taps_of_channel(x[1].toTensor()); }},
      {"longbow::head_filter_backward",
       [](Values x, Values) { return 4 * elements(x[1]) * taps_of_channel(x[2].toTensor()); }},
      {"longbow::decayed_product", [](Values x, Values) { return fading_sums(x, 0); }},
      {"longbow::decayed_product_backward", [](Values x, Values) { return 2 * fading_sums(x, 2); }},
      {"longbow::iterated_inverse",
       [](Values x, Values y) { return small_products(x[0].toTensor(), 4, y[1].toTensor()); }},
      {"longbow::iterated_inverse_backward",
       [](Values x, Values) { return small_products(x[1].toTensor(), 11, x[2].toTensor()); }},
      {"longbow::slot_softmax", read_pairs},
      {"longbow::slot_softmax_backward", read_pairs_backward},
      {"longbow::pack_softmax", read_pairs},
      {"longbow::pack_softmax_backward", read_pairs_backward},
      {"longbow::pair_product", read_pairs},
      {"longbow::pair_product_backward", read_pairs_backward},
      {"longbow::feature_product",
       [](Values x, Values) { return features(x, 0, turned_features(x, 0, 4), false); }},
      {"longbow::feature_product_backward",
       [](Values x, Values) { return 2 * features(x, 1, turned_features(x, 1, 7), false); }},
      {"longbow::random_product",
       [](Values x, Values) { return features(x, 0, projections(x[3]), true); }},
      {"longbow::random_product_backward",
       [](Values x, Values) { return 2 * features(x, 1, projections(x[4]), true); }},
  };
  return table;
}

// That of addmm_ is that of addmm: in place they are operators of their own.
Formula formula_of(const std::string& name) {
  const bool in_place = name.starts_with("aten::") && name.ends_with('_');
  const auto found = formulas().find(in_place ? name.substr(0, name.size() - 1) : name);
  return found == formulas().end() ? nullptr : found->second;
}

bool reduces(const std::string& name) {
  static const std::unordered_set<std::string> names = {
      "aten::sum",  "aten::mean", "aten::any",       "aten::all",
      "aten::amax", "aten::amin", "aten::max",       "aten::min",
      "aten::prod", "aten::norm", "aten::logsumexp", "aten::argmax",
      "aten::var",  "aten::std",  "aten::topk",      "aten::linalg_vector_norm"};
  return names.count(name) > 0;
}

bool is_view(const c10::FunctionSchema& schema) {
  for (const auto& result : schema.returns())
    if (const auto* alias = result.alias_info(); alias && !alias->isWrite()) return true;
  return false;
}

// What is counted of a call, and of the calls inside it.
struct Count {
  double operations = 0;
  int64_t launches = 0;
  double bytes = 0;

  Count& operator+=(const Count& more) {
    operations += more.operations;
    launches += more.launches;
    bytes += more.bytes;
    return *this;
  }
};

// Operators call operators. A formula replaces what is inside; otherwise the inside counts, but at
// least once each element. Fresh memory is free, also where it is filled to catch reads before a
// write.
Count count_of(const c10::FunctionSchema& schema, Values x, Values y, const Count& inside) {
  const auto& name = schema.name();
  const auto launches = std::max<int64_t>(1, inside.launches);
  const double moved = inside.launches > 0 ? inside.bytes : bytes(x) + bytes(y);
  if (const auto formula = formula_of(name)) {
    if (name.starts_with("aten::")) return {formula(x, y), 1, bytes(x) + bytes(y)};
    return {formula(x, y), launches, moved};
  }
  if (name.starts_with("aten::empty") || name.starts_with("aten::new_empty")) return {};
  if (is_view(schema) || name == "aten::_unsafe_view") return inside;
  const double elements = reduces(name) ? std::max(largest(x), largest(y)) : largest(y);
  return {std::max(inside.operations, elements), launches, moved};
}

struct Total {
  std::mutex mutex = {};
  Count count = {};
  void add(const Count& more) {
    const std::lock_guard lock(mutex);
    count += more;
  }
};
Total& total() {
  static Total counted;
  return counted;
}

// One running operator. It notes its inputs while they are valid and settles when it ends.
struct Call : at::ObserverContext {
  Call* outer = nullptr;
  std::vector<c10::IValue> inputs;
  Count inside = {};
};
thread_local Call* current_call = nullptr;

std::unique_ptr<at::ObserverContext> begin_call(const at::RecordFunction& function) {
  auto call = std::make_unique<Call>();
  call->inputs.assign(function.inputs().begin(), function.inputs().end());
  call->outer = current_call;
  current_call = call.get();
  return call;
}

void end_call(const at::RecordFunction& function, at::ObserverContext* context) {
  auto* call = static_cast<Call*>(context);
  current_call = call->outer;
  const auto schema = function.operator_schema();
  const auto results = function.outputs();
  const bool finished = schema && results.size() >= schema->returns().size();  // none if it threw
  const auto count =
      finished ? count_of(*schema, call->inputs, results, call->inside) : call->inside;
  if (current_call)
    current_call->inside += count;
  else
    total().add(count);
}

// at::RecordFunction has one member more without NDEBUG, which LibTorch's release libraries do not
// know of.
#ifndef NDEBUG
#error "compile with NDEBUG, as LibTorch was"
#endif

class OperationCounter {
 public:
  OperationCounter() {
    total().count = {};
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(begin_call, end_call)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  ~OperationCounter() { at::removeCallback(handle_); }
  Usage usage(int64_t allocated, int64_t peak) const {
    const auto& count = total().count;
    return {allocated, peak, count.operations, count.launches, count.bytes};
  }
  OperationCounter(const OperationCounter&) = delete;
  OperationCounter& operator=(const OperationCounter&) = delete;

 private:
  at::CallbackHandle handle_;
};

#ifdef LONGBOW_CUDA
Usage measure_cuda(const std::function<void()>& body, c10::Device device) {
  namespace cache = c10::cuda::CUDACachingAllocator;
  const auto index = device.has_index() ? device.index() : c10::cuda::current_device();
  const auto bytes = [&] { return cache::getDeviceStats(index).allocated_bytes[0]; };
  cache::resetPeakStats(index);
  const auto before = bytes();
  const OperationCounter counter;
  body();
  const auto after = bytes();
  return counter.usage(after.allocated - before.allocated, after.peak - before.current);
}
#endif

}  // namespace

Usage measure(const std::function<void()>& body, c10::Device device) {
#ifdef LONGBOW_CUDA
  if (device.is_cuda()) return measure_cuda(body, device);
#endif
  TORCH_CHECK(device.is_cpu(), "measure: no counter for the memory of ", device);
  auto& allocator = CountingAllocator::installed();
  const OperationCounter counter;
  allocator.restart();
  body();
  return counter.usage(allocator.allocated(), allocator.peak());
}

}  // namespace longbow
