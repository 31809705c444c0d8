#include "longbow/predict/batches.h"

#include <ATen/ATen.h>

#include "longbow/data/feed/loader.h"

namespace longbow::predict {

SamplerConfig as_trained(SamplerConfig config, int64_t longest) {
  if (config.lengths.empty())
    for (int64_t length = config.bucket; length < longest; length += config.bucket)
      config.lengths.push_back(length);
  if (config.lengths.empty() || config.lengths.back() < longest) config.lengths.push_back(longest);
  return config;
}

void for_batches(const Task& task, const Dataset& data, SamplerConfig sampler, uint64_t seed,
                 const Take& take) {
  const at::NoGradGuard no_grad;
  if (data.size() == 0) return;
  sampler.shuffle = sampler.drop_last = sampler.carry = false;
  Sampler plans(lengths_of(data), sampler, 0);
  for (int64_t i = 0; i < plans.batches_per_epoch(); ++i) {
    const auto plan = plans.next();
    take(collate(data, plan).to(task.device()), plan.indices,
         Random::from_seed(seed, i, task.device()));
  }
}

}  // namespace longbow::predict
