#include "longbow/train/pretrain.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "longbow/models/encoder.h"
#include "longbow/nn/safetensors.h"
#include "longbow/train/checkpoint.h"
#include "longbow/train/trainer.h"

namespace fs = std::filesystem;

namespace longbow {
namespace {

const std::vector<std::string> kPretrains = {"causal_lm", "masked_lm", "replaced_tokens"};
constexpr const char *kEncoder = "encoder.", *kWords = "encoder.embedding.words";

// The entries of a model part that describe its encoder.
Node encoder_part(const Node& model) {
  Node part = Node::map();
  part.place = model.place;
  for (const auto& doc : describe<EncoderConfig>()) {
    const auto key = doc.name.substr(0, doc.name.find('.'));
    if (const auto* value = model.find(key)) part[key] = *value;
  }
  return part;
}

template <class T>
void lay_over(T& value, const std::optional<T>& other) {
  if (other) value = *other;
}

bool is_longer(const Tensor& tensor, const Tensor& wanted) {
  return tensor.dim() == 2 && tensor.size(1) == wanted.size(1) && tensor.size(0) > wanted.size(0);
}

// Tensors of the encoder by name, of other modules the module only.
std::string listed(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const auto& name : names) {
    const auto entry = name.starts_with(kEncoder) ? name : name.substr(0, name.find('.')) + ".*";
    if (shown.empty() || shown.back() != entry) shown.push_back(entry);
  }
  return fmt::format("{}", fmt::join(shown, ", "));
}

}  // namespace

RunConfig pretraining_of(const RunConfig& config) {
  auto first = config;
  const auto& own = config.pretrain;
  first.pretrain = {};
  first.objective = own.objective;
  first.model = merged(encoder_part(config.model), own.model);
  if (own.objective == "causal_lm") first.model["causal"] = Node::boolean(true);
  auto& train = first.train;
  lay_over(train.max_steps, own.max_steps);
  lay_over(train.optimizer.learning_rate, own.learning_rate);
  lay_over(train.optimizer.weight_decay, own.weight_decay);
  lay_over(train.schedule.warmup_steps, own.warmup_steps);
  lay_over(train.sampler.batch_size, own.batch_size);
  lay_over(train.evaluate_every, own.evaluate_every);
  lay_over(train.checkpoint_every, own.checkpoint_every);
  return first;
}

void check_pretraining(const RunConfig& config, const Node& tree) {
  const auto& name = config.pretrain.objective;
  if (name.empty()) return;
  const auto* part = tree.find("pretrain");
  const auto* objective = part ? part->find("objective") : nullptr;
  if (std::find(kPretrains.begin(), kPretrains.end(), name) == kPretrains.end())
    throw UserError(objective ? objective->place : tree.place,
                    fmt::format("'{}' does not pretrain", name), suggest(name, kPretrains));
  find_objective(name).check(pretraining_of(config).model);
}

Tensors pretrained(const RunConfig& config, const TrainOptions& options) {
  const fs::path run(options.out), folder = run / "pretrain";
  if (config.pretrain.objective.empty()) return {};
  // A folder that holds a run already is for the trainer to refuse or to continue.
  if (fs::exists(run / "metrics.jsonl") && (!options.resume || newest_checkpoint(options.out)))
    return {};
  if (!options.resume || !fs::exists(folder / "results.json")) {
    auto own = options;
    own.out = folder.string();
    own.label = options.label + ", pretraining";
    train(pretraining_of(config), own);
  }
  return load_safetensors((folder / "model.safetensors").string()).tensors;
}

std::string Moved::text() const {
  auto text = fmt::format("{} tensors of the pretraining moved", moved.size());
  if (!cut.empty()) text += "; cut to the rows wanted: " + listed(cut);
  if (!left.empty()) text += "; left behind: " + listed(left);
  if (!fresh.empty()) text += "; not pretrained: " + listed(fresh);
  return text;
}

Moved move_encoder(const Tensors& from, Tensors& to) {
  Moved result;
  for (const auto& [name, tensor] : from) {
    const auto found = to.find(name);
    const bool wanted = name.starts_with(kEncoder) && found != to.end();
    if (wanted && found->second.sizes() == tensor.sizes()) {
      found->second = tensor;
    } else if (wanted && name == kWords && is_longer(tensor, found->second)) {
      found->second = tensor.narrow(0, 0, found->second.size(0));
      result.cut.push_back(name);
    } else {
      result.left.push_back(name);
      continue;
    }
    result.moved.push_back(name);
  }
  for (const auto& [name, tensor] : to)
    if (std::find(result.moved.begin(), result.moved.end(), name) == result.moved.end())
      result.fresh.push_back(name);
  if (result.moved.empty())
    throw UserError("no tensor of the pretraining fits the model",
                    "only a model with one encoder can be pretrained");
  return result;
}

}  // namespace longbow
