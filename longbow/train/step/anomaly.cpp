#include "longbow/train/step/anomaly.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <limits>
#include <memory>
#include <string_view>

namespace longbow {
namespace {

// Of this thread: the observer is a plain function.
thread_local Anomaly* watching = nullptr;
thread_local int depth = 0;

std::unique_ptr<at::ObserverContext> begin_call(const at::RecordFunction& call) {
  if (depth++ > 0) return nullptr;
  watching->begin();
  for (const auto& value : call.inputs())
    if (value.isTensor()) watching->reads(value.toTensor());
  return nullptr;
}

void end_call(const at::RecordFunction& call, at::ObserverContext*) {
  if (--depth > 0) return;
  const std::string_view name = call.name();
  // What they give has no value yet.
  if (name.starts_with("aten::empty") || name.starts_with("aten::new_empty")) return;
  for (const auto& value : call.outputs())
    if (value.isTensor()) watching->gives(call.name(), value.toTensor());
}

class Observer {
 public:
  explicit Observer(Anomaly* anomaly) {
    watching = anomaly;
    depth = 0;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(begin_call, end_call)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  ~Observer() {
    at::removeCallback(handle_);
    watching = nullptr;
  }
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

 private:
  at::CallbackHandle handle_;
};

}  // namespace

Anomaly::Anomaly(const std::vector<Weight>& weights) {
  for (const auto& weight : weights) {
    const auto dot = weight.name.rfind('.');
    modules_[weight.parameter.unsafeGetTensorImpl()] =
        dot == std::string::npos ? "the model" : weight.name.substr(0, dot);
    const auto hook =
        weight.parameter.register_hook([this, name = weight.name](const Tensor& grad) {
          const std::lock_guard lock(mutex_);
          if (gradient_.empty() && !grad.isfinite().all().item<bool>()) gradient_ = name;
        });
    hooks_.emplace_back(weight.parameter, hook);
  }
}

Anomaly::~Anomaly() {
  for (const auto& [parameter, hook] : hooks_) parameter.remove_hook(hook);
}

void Anomaly::restart() {
  output_.clear();
  gradient_.clear();
}

void Anomaly::watch(const std::function<void()>& forward) {
  module_.clear();
  const Observer observer(this);
  forward();
}

void Anomaly::reads(const Tensor& tensor) {
  const auto found = modules_.find(tensor.unsafeGetTensorImpl());
  if (found == modules_.end()) return;
  module_ = found->second;
  own_ = true;
}

void Anomaly::gives(const char* operation, const Tensor& tensor) {
  if (!output_.empty() || !tensor.defined() || !tensor.is_floating_point()) return;
  const at::RecordFunctionGuard unobserved(false);
  const at::NoGradGuard no_grad;
  const auto fine = own_ ? tensor.isfinite() : tensor < std::numeric_limits<double>::infinity();
  if (fine.all().item<bool>()) return;
  const auto place = module_.empty() ? std::string("the start") : module_;
  output_ = own_ ? place + " (" + operation + ")" : std::string(operation) + ", after " + place;
}

}  // namespace longbow
