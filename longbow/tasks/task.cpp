#include "longbow/tasks/task.h"

#include <ATen/ATen.h>

#include "longbow/models/encoder/encoder.h"

namespace longbow {

int64_t Task::parameter_count() {
  int64_t count = 0;
  for (const auto& parameter : model().parameters()) count += parameter.numel();
  return count;
}

void fit_length(int64_t& max_length, const Splits& splits, int64_t bucket) {
  const int64_t longest = (splits.max_length + bucket - 1) / bucket * bucket;
  if (max_length == 0) max_length = longest;
  require_option(max_length >= longest, "max_length",
                 "is " + std::to_string(max_length) + ", but the data has sequences of up to " +
                     std::to_string(longest) + " padded tokens",
                 "raise it, or cut the data with data.max_tokens");
}

Texts Task::texts() const {
  TORCH_CHECK(false, "texts: the task is not asked");
}
std::vector<Node> Task::predict(const Batch&, const Random&) {
  TORCH_CHECK(false, "predict: the task does not predict");
}
Batch Task::corrupt(const Batch& batch, const Random&) const {
  return batch;
}
Decoded Task::write(const Batch&, const DecodingConfig&, const Random&) {
  TORCH_CHECK(false, "write: the task does not write");
}
const DecodingConfig& Task::decoding() const {
  TORCH_CHECK(false, "decoding: the task does not write");
}

Context Task::context_of(const Batch& batch, const Random& random) const {
  return {.mask = batch.padded ? Mask::from_lengths(batch.lengths, batch.tokens.size(1)) : Mask{},
          .segments = batch.segments,
          .random = random,
          .maps = maps_};
}

Outcome classification_loss(const Tensor& logits, const Tensor& targets, int64_t samples,
                            const TaskOptions& options, bool training) {
  const auto rows = logits.flatten(0, -2), wanted = targets.flatten();
  const auto counted = wanted != kIgnore;
  auto loss = at::cross_entropy_loss(rows.to(wide(rows)), wanted, {}, at::Reduction::None, kIgnore,
                                     training ? options.label_smoothing : 0);
  const auto count = counted.sum();
  auto weight = count;
  if (options.normalise == Normalise::samples) {
    const auto each = counted.view({samples, -1}).sum(1);
    loss = loss.view({samples, -1}).sum(1) / each.clamp_min(1);
    weight = (each > 0).sum();
  }
  const auto total = loss.sum();
  const auto right = (rows.detach().argmax(-1) == wanted).logical_and(counted).sum();
  return {total,
          {{"loss", total.detach()}, {"weight", weight}, {"correct", right}, {"count", count}}};
}

Outcome with_extra_loss(Outcome outcome, const Context& context) {
  if (context.loss.defined())
    outcome.loss = outcome.loss + context.loss * outcome.sums.at("weight");
  return outcome;
}

Node card(const std::string& type, const std::vector<std::pair<std::string, int64_t>>& sizes,
          const std::vector<std::string>& labels) {
  Node all = Node::map({{"model_type", Node::string(type)}});
  for (const auto& [name, size] : sizes) all[name] = Node::integer(size);
  if (labels.empty()) return all;
  // As Hugging Face's tools expect them.
  auto names = Node::map(), classes = Node::map();
  for (const auto& label : labels) {
    const auto number = std::ssize(names.entries);
    names[std::to_string(number)] = Node::string(label);
    classes[label] = Node::integer(number);
  }
  all["id2label"] = names;
  all["label2id"] = classes;
  return all;
}

double sum_of(const Tensors& sums, const std::string& name) {
  const auto found = sums.find(name);
  return found == sums.end() ? 0 : found->second.item<double>();
}

double mean_of(const Tensors& sums, const std::string& name, const std::string& over) {
  return sum_of(sums, name) / std::max(sum_of(sums, over), 1.0);
}

namespace {

void add_mechanisms(const Node& part, const char* key, std::string& label) {
  const auto* attention = part.find(key);
  const auto* layers = part.find("layers");
  const auto options =
      attention_per_layer(attention ? *attention : Node::string("softmax"),
                          layers ? as_integer(*layers, "layers") : EncoderConfig().layers);
  for (const auto& own : options) {
    const auto& name = mechanism_of(own).name;
    if (label.empty())
      label = name;
    else if (("+" + label + "+").find("+" + name + "+") == std::string::npos)
      label += "+" + name;
  }
}

}  // namespace

std::string mechanism_label(const Node& model) {
  std::string label;
  const auto *encoder = model.find("encoder"), *decoder = model.find("decoder");
  if (!encoder && !decoder) {
    add_mechanisms(model, "attention", label);
    return label;
  }
  add_mechanisms(encoder ? *encoder : Node::map(), "attention", label);
  for (const auto* key : {"attention", "cross_attention"})
    add_mechanisms(decoder ? *decoder : Node::map(), key, label);
  return label;
}

}  // namespace longbow
