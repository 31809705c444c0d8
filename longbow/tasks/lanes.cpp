#include "longbow/tasks/lanes.h"

#include <ATen/ATen.h>

#include "longbow/core/error.h"

namespace longbow {
namespace {

constexpr const char* kPrefix = "carry.";  // of the names in a checkpoint

}  // namespace

Lanes::Lanes(State empty) : state_(std::move(empty)) {
  state_.settle();
}

State Lanes::take(int64_t rows) const {
  State taken = state_;
  for (auto& lane : taken.tensors()) *lane.tensor = lane.tensor->narrow(0, 0, rows).clone();
  return taken;
}

void Lanes::put(const State& state) {
  state_.put(state);
}

void Lanes::clear() {
  for (auto& lane : state_.tensors()) lane.tensor->fill_(lane.empty);
}

Tensors Lanes::saved() const {
  State copy = state_;
  Tensors saved;
  for (const auto& lane : copy.tensors(kPrefix)) saved[lane.name] = *lane.tensor;
  return saved;
}

void Lanes::load(const Tensors& saved) {
  for (auto& lane : state_.tensors(kPrefix)) {
    const auto found = saved.find(lane.name);
    if (found == saved.end() || found->second.sizes() != lane.tensor->sizes())
      throw UserError("the checkpoint has no state " + lane.name + " of this shape",
                      "resume with the model and the train.carry that the run began with");
    lane.tensor->copy_(found->second);
  }
}

}  // namespace longbow
