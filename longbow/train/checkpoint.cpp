#include "longbow/train/checkpoint.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "longbow/core/config.h"
#include "longbow/core/fields.h"
#include "longbow/core/file.h"
#include "longbow/nn/safetensors.h"

namespace fs = std::filesystem;

namespace longbow {

template <class V>
void fields(V& v, SamplerPosition& p) {
  v("epoch", p.epoch, "of the next batch");
  v("index", p.index, "of the next batch in its epoch");
}
template <class V>
void fields(V& v, Progressed& p) {
  v("step", p.step, "optimiser steps done");
  v("position", p.position, "where the data continues");
  v("best", p.best, "best validation score");
  v("best_step", p.best_step, "its step");
  v("stale", p.stale, "evaluations without a better score");
  v("mark", p.mark, "the score that they are measured against");
  v("seconds", p.seconds, "training time");
  v("tokens", p.tokens, "real tokens seen");
  v("peak_bytes", p.peak_bytes, "most memory of a step");
  v("data", p.data, "checksum of all samples");
}

Tensors weights_of(const torch::nn::Module& model) {
  Tensors weights;
  for (const auto& entry : model.named_parameters()) weights[entry.key()] = entry.value().detach();
  for (const auto& entry : model.named_buffers()) weights[entry.key()] = entry.value();
  return weights;
}

void load_weights(torch::nn::Module& model, const Tensors& weights, const std::string& file) {
  const auto own = weights_of(model);
  std::ostringstream wrong;
  for (const auto& [name, tensor] : own) {
    const auto found = weights.find(name);
    if (found == weights.end())
      wrong << " missing " << name << ',';
    else if (found->second.sizes() != tensor.sizes())
      wrong << ' ' << name << " is " << found->second.sizes() << " instead of " << tensor.sizes()
            << ',';
  }
  for (const auto& [name, tensor] : weights)
    if (!own.count(name)) wrong << " unexpected " << name << ',';
  if (auto text = wrong.str(); !text.empty()) {
    text.pop_back();
    throw UserError(Place{file, 0}, "weights do not fit the model:" + text);
  }
  at::NoGradGuard no_grad;
  for (auto& [name, tensor] : own) Tensor(tensor).copy_(weights.at(name));
}

namespace {

std::vector<int64_t> steps_in(const fs::path& folder) {
  std::vector<int64_t> steps;
  if (!fs::is_directory(folder)) return steps;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (!name.empty() &&
        std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c); }))
      steps.push_back(std::stoll(name));
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

}  // namespace

void save_checkpoint(const std::string& run, const Progressed& progressed, const Tensors& weights,
                     const Tensors& optimizer, const Keep& keep) {
  const auto folder = fs::path(run) / "checkpoints";
  const auto target = folder / std::to_string(progressed.step), draft = folder / "draft";
  fs::remove_all(draft);
  fs::create_directories(draft);
  save_safetensors((draft / "model.safetensors").string(), weights);
  save_safetensors((draft / "optimizer.safetensors").string(), optimizer);
  write_file((draft / "trainer.json").string(), to_json(written(progressed), 2) + "\n");
  fs::remove_all(target);
  fs::rename(draft, target);
  auto steps = steps_in(folder);
  steps.resize(
      static_cast<size_t>(std::max<int64_t>(static_cast<int64_t>(steps.size()) - keep.newest, 0)));
  for (const auto step : steps)
    if (step != keep.best && (keep.every == 0 || step % keep.every != 0))
      fs::remove_all(folder / std::to_string(step));
}

bool has_checkpoint(const std::string& run) {
  return !steps_in(fs::path(run) / "checkpoints").empty();
}

std::optional<Checkpoint> newest_checkpoint(const std::string& run) {
  const auto steps = steps_in(fs::path(run) / "checkpoints");
  if (steps.empty()) return {};
  const auto folder = fs::path(run) / "checkpoints" / std::to_string(steps.back());
  const auto file = (folder / "trainer.json").string();
  return Checkpoint{read<Progressed>(parse_json(read_file(file), file)),
                    load_safetensors((folder / "model.safetensors").string()).tensors,
                    load_safetensors((folder / "optimizer.safetensors").string()).tensors};
}

}  // namespace longbow
