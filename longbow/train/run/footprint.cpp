#include "longbow/train/run/footprint.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <vector>

#include "longbow/core/log.h"
#include "longbow/core/memory.h"
#include "longbow/models/encoder/encoder_config.h"

namespace longbow {
namespace {

constexpr double kFloat = 4;

// The sizes of one stack of layers. A model of several has their sizes in maps of their own.
class Stack {
 public:
  Stack(const Node& own, const Node& model) : own_(own), model_(model) {}

  double width() const { return number("width", static_cast<double>(EncoderConfig{}.width)); }
  // Of what every mechanism leaves as it is.
  double parameters() const { return fed_forward() + positions(); }

 private:
  const Node* find(const std::string& key) const {
    const auto* found = own_.find(key);
    return found ? found : model_.find(key);
  }
  double number(const std::string& key, double fallback) const {
    const auto* found = find(key);
    return found && !found->is_null() ? as_number(*found, key) : fallback;
  }
  double fed_forward() const {
    const auto* block = find("block");
    const auto* kind = block ? block->find("feed_forward_kind") : nullptr;
    if (kind && kind->text == "none") return 0;
    const auto* inner = block ? block->find("feed_forward") : nullptr;
    const double given = inner ? as_number(*inner, "feed_forward") : 0;
    return number("layers", static_cast<double>(EncoderConfig{}.layers)) * 2 * width() *
           (given > 0 ? given : 4 * width());
  }
  double positions() const {
    const auto* kind = find("positions");
    const bool narrower = number("embedding_width", 0) > 0;
    return narrower || (kind && kind->text != "learned") ? 0 : number("max_length", 0) * width();
  }

  const Node &own_, &model_;
};

std::vector<Stack> stacks_of(const Node& model) {
  std::vector<Stack> stacks;
  for (const auto* name : {"encoder", "decoder"})
    if (const auto* own = model.find(name)) stacks.emplace_back(*own, model);
  if (stacks.empty()) stacks.emplace_back(model, model);
  return stacks;
}

// Copies of every weight that an optimiser keeps, at least.
double copies(const OptimizerConfig& config) {
  switch (config.optimizer) {
    case Method::adamw:
    case Method::adam:
    case Method::nadam:
    case Method::radam:
      return 2;
    case Method::rmsprop:
    case Method::adagrad:
      return 1;
    case Method::sgd:
      return config.sgd.momentum > 0 ? 1 : 0;
    case Method::adafactor:
    case Method::adafactor_transformers:
      return 0;
  }
  return 0;
}

}  // namespace

Footprint least_footprint(const RunConfig& config) {
  Footprint least;
  const auto& sampler = config.train.sampler;
  const auto samples = sampler.batch_tokens > 0 ? int64_t{1} : sampler.batch_size;
  for (const auto& stack : stacks_of(config.model)) {
    least.weights += kFloat * stack.parameters();
    least.activations += kFloat * static_cast<double>(samples) * stack.width();
  }
  if (config.start.from.empty()) least.gradients = least.weights;  // else some may be frozen
  least.optimizer = copies(config.train.optimizer) * least.gradients;
  return least;
}

void check_footprint(const RunConfig& config, double available) {
  const auto least = least_footprint(config);
  TORCH_CHECK_WITH(
      OutOfMemoryError, least.total() <= available,
      fmt::format("not enough memory: training takes at least {} (weights {}, gradients {}, "
                  "optimiser {}, activations {}), {} are available",
                  human_bytes(least.total()), human_bytes(least.weights),
                  human_bytes(least.gradients), human_bytes(least.optimizer),
                  human_bytes(least.activations), human_bytes(available)));
}

void check_footprint(const RunConfig& config, at::Device device) {
  if (device.is_cpu()) check_footprint(config, available_memory());
}

}  // namespace longbow
