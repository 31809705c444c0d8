#include "longbow/train/step/readback.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace longbow {

void Readback::send(const std::map<std::string, at::Tensor>& scalars, Receiver receiver) {
  Sent sent = {.names = {}, .values = {}, .arrived = {}, .receiver = std::move(receiver)};
  std::vector<at::Tensor> values;
  for (const auto& [name, value] : scalars) {
    if (value.numel() != 1) continue;
    sent.names.push_back(name);
    values.push_back(value.detach().reshape({}).to(at::kDouble));
  }
  const auto packed = at::stack(values);
  if (device_.is_cpu()) {
    sent.values = packed;
  } else {
    sent.values = at::empty(packed.sizes(), at::TensorOptions(at::kDouble).pinned_memory(true));
    sent.values.copy_(packed, /*non_blocking=*/true);
    sent.arrived.emplace(device_.type());
    sent.arrived->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }
  sent_.push_back(std::move(sent));
  poll();
}

void Readback::poll() {
  while (!sent_.empty() && (!sent_.front().arrived || sent_.front().arrived->query())) deliver();
}

void Readback::flush() {
  while (!sent_.empty()) {
    if (sent_.front().arrived) sent_.front().arrived->synchronize();
    deliver();
  }
}

void Readback::deliver() {
  const auto sent = std::move(sent_.front());
  sent_.pop_front();
  Numbers numbers;
  const auto* values = sent.values.const_data_ptr<double>();
  for (size_t i = 0; i < sent.names.size(); ++i) numbers[sent.names[i]] = values[i];
  sent.receiver(numbers);
}

}  // namespace longbow
