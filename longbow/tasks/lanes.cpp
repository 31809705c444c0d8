#include "longbow/tasks/lanes.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "longbow/core/error.h"

namespace longbow {
namespace {

// Every tensor of a state by its name, with what an empty lane holds there.
struct Named {
  std::string name;
  Tensor* tensor;
  double empty;
};
void collect(State& state, const std::string& prefix, std::vector<Named>& all) {
  for (auto& [name, tensor] : state.lane)
    all.push_back({prefix + name, &tensor, state.fill.at(name)});
  if (state.seen.defined()) all.push_back({prefix + "seen", &state.seen, 0});
  for (auto& [name, child] : state.child) collect(child, prefix + name + ".", all);
}
std::vector<Named> tensors_of(State& state) {
  std::vector<Named> all;
  collect(state, "carry.", all);
  return all;
}

}  // namespace

// A lane may be a view that repeats one row for all: each gets its own.
Lanes::Lanes(State empty) : state_(std::move(empty)) {
  const at::NoGradGuard no_grad;
  for (auto& lane : tensors_of(state_)) *lane.tensor = lane.tensor->clone().contiguous();
}

State Lanes::take(int64_t rows) const {
  State taken = state_;
  for (auto& lane : tensors_of(taken)) *lane.tensor = lane.tensor->narrow(0, 0, rows).clone();
  return taken;
}

void Lanes::put(const State& state) {
  const at::NoGradGuard no_grad;
  State given = state;
  const auto from = tensors_of(given), to = tensors_of(state_);
  TORCH_CHECK(from.size() == to.size(), "lanes: ", from.size(), " tensors, not ", to.size());
  for (size_t i = 0; i < from.size(); ++i)
    to[i].tensor->narrow(0, 0, from[i].tensor->size(0)).copy_(*from[i].tensor);
}

void Lanes::clear() {
  for (auto& lane : tensors_of(state_)) lane.tensor->fill_(lane.empty);
}

Tensors Lanes::saved() const {
  State copy = state_;
  Tensors saved;
  for (const auto& lane : tensors_of(copy)) saved[lane.name] = *lane.tensor;
  return saved;
}

void Lanes::load(const Tensors& saved) {
  for (auto& lane : tensors_of(state_)) {
    const auto found = saved.find(lane.name);
    if (found == saved.end() || found->second.sizes() != lane.tensor->sizes())
      throw UserError("the checkpoint has no state " + lane.name + " of this shape",
                      "resume with the model and the train.carry that the run began with");
    lane.tensor->copy_(found->second);
  }
}

}  // namespace longbow
