#include "longbow/nn/contract/context.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "longbow/core/seed.h"
#include "longbow/ops/dropout.h"
#include "longbow/ops/philox.h"

namespace longbow {

Mask Mask::from_lengths(const Tensor& lengths, int64_t longest) {
  return {.keep = at::arange(longest, lengths.options()).unsqueeze(0) < lengths.unsqueeze(1)};
}

Mask Mask::from_keep(const Tensor& keep) {
  TORCH_CHECK(keep.dim() == 2 && keep.scalar_type() == at::kBool, "mask: keep is ", keep.sizes(),
              " ", keep.scalar_type(), ", but needs [B, M] bool");
  return {.ragged = true, .keep = keep};
}

Random Random::from_seed(uint64_t seed, int64_t step, at::Device device) {
  return {at::tensor({static_cast<int64_t>(seed), step}, at::kLong).to(device)};
}

namespace {

const Tensor& key_of(const Random& random, const std::string& site) {
  TORCH_CHECK(random.key.defined(), site,
              ": random numbers wanted, but the context has no random key");
  return random.key;
}

}  // namespace

Tensor Random::uniform(at::IntArrayRef shape, const std::string& site) const {
  return philox_uniform(key_of(*this, site), hash_name(site), shape);
}

void Random::uniform_window(Tensor& out, int64_t rows, int64_t columns, int64_t row, int64_t column,
                            const std::string& site) const {
  philox_window(key_of(*this, site), hash_name(site), rows, columns, row, column, out);
}

Tensor Random::normal(at::IntArrayRef shape, const std::string& site) const {
  // 24-bit uniforms moved to the middle of their cells, so that neither tail is infinite.
  const auto u = uniform(shape, site).to(at::kDouble).add_(0x1p-25);
  return u.mul_(2).sub_(1).erfinv_().mul_(std::sqrt(2.0)).to(at::kFloat);
}

Tensor Choices::pick(const std::string& key, const std::function<Tensor()>& make) {
  if (mode == Mode::replay) {
    const auto found = kept.find(key);
    TORCH_CHECK(found != kept.end(), "choices: nothing recorded for ", key);
    return found->second;
  }
  auto made = make();
  if (mode == Mode::record) kept[key] = made;
  return made;
}

Tensor Context::pick(const std::string& key, const std::function<Tensor()>& make) const {
  return choices ? choices->pick(key, make) : make();
}

void Context::add_loss(const Tensor& term) {
  loss = loss.defined() ? loss + term : term;
}

Tensor& State::add(const std::string& name, at::IntArrayRef shape, const at::TensorOptions& options,
                   double empty) {
  fill[name] = empty;
  return lane[name] = at::full(shape, empty, options);
}

void State::reorder(const Tensor& beams) {
  for (auto& [name, tensor] : lane) tensor = tensor.index_select(0, beams);
  if (seen.defined()) seen = seen.index_select(0, beams);
  for (auto& [name, state] : child) state.reorder(beams);
}

void State::reset(const Tensor& lanes) {
  for (auto& [name, tensor] : lane) {
    std::vector<int64_t> shape(static_cast<size_t>(tensor.dim()), 1);
    shape[0] = tensor.size(0);
    tensor = tensor.masked_fill(lanes.view(shape), fill.at(name));
  }
  if (seen.defined()) seen = seen.masked_fill(lanes, 0);
  for (auto& [name, state] : child) state.reset(lanes);
}

void State::detach() {
  for (auto& [name, tensor] : lane) tensor = tensor.detach();
  for (auto& [name, state] : child) state.detach();
}

std::vector<StateTensor> State::tensors(const std::string& prefix) {
  std::vector<StateTensor> all;
  for (auto& [name, tensor] : lane) {
    const auto empty = fill.find(name);
    all.push_back({prefix + name, &tensor, empty == fill.end() ? 0 : empty->second});
  }
  if (seen.defined()) all.push_back({prefix + "seen", &seen});
  for (auto& [name, state] : child)
    for (auto& inner : state.tensors(prefix + name + ".")) all.push_back(std::move(inner));
  return all;
}

// A lane may be a view that repeats one row for all: each gets its own.
void State::settle() {
  const at::NoGradGuard no_grad;
  for (auto& [name, tensor, empty] : tensors()) *tensor = tensor->clone().contiguous();
}

void State::put(const State& state) {
  const at::NoGradGuard no_grad;
  State given = state;
  const auto from = given.tensors(), to = tensors();
  TORCH_CHECK(from.size() == to.size(), "state: ", from.size(), " tensors, not ", to.size());
  for (size_t i = 0; i < from.size(); ++i) {
    const auto &value = *from[i].tensor, &place = *to[i].tensor;
    TORCH_CHECK(from[i].name == to[i].name && value.sizes().slice(1) == place.sizes().slice(1) &&
                    value.size(0) <= place.size(0),
                "state: ", from[i].name, " is ", value.sizes(), ", but ", to[i].name, " is ",
                place.sizes());
    if (!value.is_same(place)) place.narrow(0, 0, value.size(0)).copy_(value);
  }
}

at::ScalarType wide(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

Tensor zero_where_padded(const Tensor& x, const Tensor& keep) {
  return keep.defined() ? x.masked_fill(keep.logical_not().unsqueeze(-1), 0) : x;
}

Tensor positions_of(const Tensor& x, const Context& context) {
  if (context.positions.defined()) return context.positions;
  const auto& mask = context.mask;
  const auto& keep =
      mask.query_keep.defined() || context.memory.defined() ? mask.query_keep : mask.keep;
  if (keep.defined()) return keep.to(at::kLong).cumsum(1).sub_(1).clamp_min_(0);
  return at::arange(x.size(1), x.options().dtype(at::kLong)).unsqueeze(0).expand({x.size(0), -1});
}

Tensor dropout(const Tensor& x, double rate, bool training, const Context& context,
               const std::string& site) {
  const auto drop = drop_of(rate, training, context, site);
  return drop.rate == 0 ? x : philox_dropout(x, drop.key, drop.site, drop.rate);
}

Drop drop_of(double rate, bool training, const Context& context, const std::string& site) {
  if (!training || rate == 0) return {};
  return {rate, key_of(context.random, site), hash_name(site)};
}

}  // namespace longbow
