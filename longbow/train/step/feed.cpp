#include "longbow/train/step/feed.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace longbow {

Feed::Feed(const std::shared_ptr<const Dataset>& dataset, const Sampler& sampler,
           const LoaderConfig& config, int64_t resident, at::Device device)
    : device_(device), sampler_(sampler) {
  if (device.is_cpu()) {
    loader_ = std::make_unique<Loader>(dataset, sampler, config);
    return;
  }
  const c10::impl::VirtualGuardImpl guard(device.type());
  stream_ = guard.getStreamFromGlobalPool(device, /*isHighPriority=*/true);
  const c10::StreamGuard ours(*stream_);
  if (resident_bytes(*dataset) <= resident)
    resident_ = std::make_unique<ResidentData>(*dataset, device);
  else
    loader_ = std::make_unique<Loader>(dataset, sampler, config, /*pinned=*/true);
}

Batch Feed::make() {
  return resident_ ? resident_->batch(sampler_.next()) : loader_->next().to(device_);
}

Batch Feed::next() {
  if (!stream_) return make();
  const auto reader = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  Batch batch;
  c10::Event arrived(device_.type());
  {
    const c10::StreamGuard ours(*stream_);
    batch = make();
    arrived.record(*stream_);
  }
  arrived.block(reader);
  for (auto* tensor : batch.tensors()) tensor->record_stream(reader);
  return batch;
}

void Feed::seek(SamplerPosition position) {
  sampler_.seek(position);
  if (loader_) loader_->seek(position);
}

}  // namespace longbow
