#include "longbow/nn/contract/site.h"

#include <ATen/ATen.h>

#include <cmath>

namespace longbow {

namespace {

using Named = torch::OrderedDict<std::string, Tensor>;

// What `own` has under that key. The others may have none there: in a file both would be one.
const Tensor* found_in(const Named& own, const Named& others, const std::string& key,
                       at::IntArrayRef shape) {
  TORCH_CHECK(!others.contains(key), "shared parameter ", key,
              " is learned in one layer and not in another");
  const auto* found = own.find(key);
  TORCH_CHECK(!found || found->sizes() == shape, "shared parameter ", key, " is ", found->sizes(),
              ", but another layer wants ", shape);
  return found;
}

}  // namespace

Tensor Shared::parameter(const std::string& key, at::IntArrayRef shape,
                         const std::function<Tensor()>& make) {
  const auto* found = found_in(parameters_, named_buffers(/*recurse=*/false), key, shape);
  return found ? *found : register_parameter(key, make());
}

Tensor Shared::buffer(const std::string& key, at::IntArrayRef shape,
                      const std::function<Tensor()>& make) {
  const auto own = named_buffers(/*recurse=*/false);
  const auto* found = found_in(own, parameters_, key, shape);
  return found ? *found : register_buffer(key, make());
}

std::shared_ptr<Shared> Shared::child(const std::string& name) {
  const auto own = named_children();
  if (const auto* found = own.find(name)) return std::dynamic_pointer_cast<Shared>(*found);
  return register_module(name, std::make_shared<Shared>());
}

Site Site::at(const std::string& name) const {
  Site inner = *this;
  inner.path = path.empty() ? name : path + "." + name;
  return inner;
}

Tensor initial_normal(const Site& site, const std::string& name, at::IntArrayRef shape,
                      double deviation) {
  return Random::from_seed(site.seed).normal(shape, "init " + site.at(name).path).mul_(deviation);
}

Tensor shared_normal(const Site& site, const std::string& key, at::IntArrayRef shape,
                     double deviation) {
  Site stack = site;
  stack.path = "";
  return site.shared->parameter(key, shape,
                                [&] { return initial_normal(stack, key, shape, deviation); });
}

Tensor initial_uniform(const Site& site, const std::string& name, at::IntArrayRef shape,
                       double bound) {
  return Random::from_seed(site.seed)
      .uniform(shape, "init " + site.at(name).path)
      .mul_(2 * bound)
      .sub_(bound);
}

Tensor initial_matrix(const Site& site, const std::string& name, int64_t out, int64_t in) {
  constexpr double kBertDeviation = 0.02;
  if (site.init == "bert") return initial_normal(site, name, {out, in}, kBertDeviation);
  TORCH_CHECK(site.init == "xavier" || site.init == "lra" || site.init == "paper", "unknown init '",
              site.init, "'; one of: bert, xavier, lra, paper");
  return initial_uniform(site, name, {out, in}, std::sqrt(6.0 / static_cast<double>(in + out)));
}

}  // namespace longbow
