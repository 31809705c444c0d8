#include "tests/support/oracle.h"

#include <ATen/ATen.h>

namespace longbow::oracle {

Tensor visible(const Context& context, int64_t batch, int64_t queries, int64_t keys) {
  auto seen = at::ones({batch, 1, queries, keys}, at::kDouble);
  if (context.mask.causal) seen = seen.tril(keys - queries);
  if (context.mask.keep.defined())
    seen = seen * context.mask.keep.to(at::kDouble).view({batch, 1, 1, keys});
  return seen;
}

Tensor weighted_mean(const Tensor& weights, const Tensor& v, const Tensor& visible) {
  const auto seen = weights * visible;
  const auto sum = seen.sum(-1, true);
  return at::where(sum > 0, seen.matmul(v) / sum, 0.0);
}

Tensor softmax(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
  const auto scores = q.matmul(k.transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(-1)));
  return weighted_mean((scores - scores.amax(-1, true)).exp(), v, visible);
}

Tensor tensor_of(const torch::nn::Module& module, const std::string& name) {
  const auto parameters = module.named_parameters();
  if (const auto* found = parameters.find(name)) return found->detach().to(at::kDouble);
  const auto buffers = module.named_buffers();
  const auto* found = buffers.find(name);
  TORCH_CHECK(found, "oracle: no parameter or buffer ", name);
  return found->to(at::kDouble);
}

Tensor without_padding(const Tensor& y, const Context& context) {
  const auto& mask = context.mask;
  const auto& keep =
      mask.query_keep.defined() || context.memory.defined() ? mask.query_keep : mask.keep;
  return keep.defined() ? y * keep.to(y.scalar_type()).unsqueeze(-1) : y;
}

Tensor multi_head(const torch::nn::Module& mixer, const Site& site, const Tensor& x,
                  const Context& context, const Attend& attend) {
  const auto source = context.memory.defined() ? context.memory : x;
  const auto projected = [&](const Tensor& tokens, const std::string& name) {
    const auto weight = tensor_of(mixer, name + ".weight");
    return tokens.matmul(weight.t()) + tensor_of(mixer, name + ".bias");
  };
  const int64_t heads = site.shape.heads, width = site.shape.head();
  const auto split = [&](const Tensor& tokens) {
    return tokens.view({tokens.size(0), tokens.size(1), heads, width}).transpose(1, 2);
  };
  const auto o = attend(split(projected(x, "query")), split(projected(source, "key")),
                        split(projected(source, "value")),
                        visible(context, x.size(0), x.size(1), source.size(1)));
  const auto merged = o.transpose(1, 2).reshape({x.size(0), x.size(1), heads * width});
  return without_padding(projected(merged, "output"), context);
}

namespace {

std::map<std::string, Forward>& table() {
  static std::map<std::string, Forward> oracles;
  return oracles;
}

}  // namespace

bool add(const std::string& mechanism, Forward forward) {
  return table().emplace(mechanism, std::move(forward)).second;
}

const Forward* find(const std::string& mechanism) {
  const auto found = table().find(mechanism);
  return found == table().end() ? nullptr : &found->second;
}

}  // namespace longbow::oracle
