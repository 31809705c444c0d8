#include "longbow/train/run/checkpoint.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "longbow/core/config.h"
#include "longbow/core/fields.h"
#include "longbow/core/file.h"
#include "longbow/core/folder.h"
#include "longbow/core/log.h"
#include "longbow/core/run_folder.h"
#include "longbow/tensors/safetensors.h"

namespace fs = std::filesystem;

namespace longbow {

template <class V>
void fields(V& v, SamplerPosition& p) {
  v("epoch", p.epoch, "of the next batch", at_least(0));
  v("index", p.index, "of the next batch in its epoch", at_least(0));
}
template <class V>
void fields(V& v, Progressed& p) {
  v("step", p.step, "optimiser steps done", at_least(0));
  v("position", p.position, "where the data continues");
  v("best", p.best, "best validation score");
  v("best_step", p.best_step, "its step", at_least(0));
  v("stale", p.stale, "evaluations without a better score", at_least(0));
  v("mark", p.mark, "the score that they are measured against");
  v("plateau", p.plateau, "where decay: plateau stands");
  v("seconds", p.seconds, "training time");
  v("tokens", p.tokens, "real tokens seen");
  v("peak_bytes", p.peak_bytes, "most memory of a step");
  v("data", p.data, "checksum of all samples");
  v("unevaluated", p.unevaluated, "whether an evaluation after this step is still to be made");
  v("evaluated_step", p.evaluated_step, "step of the last evaluation", at_least(0));
  v("best_sha256", p.best_sha256, "checksum of best.safetensors");
}

template <class V>
void fields(V& v, TrainerRecord& r) {
  fields(v, r.progressed);
  v("model_sha256", r.model_sha256, "checksum of model.safetensors");
  v("optimizer_sha256", r.optimizer_sha256, "checksum of optimizer.safetensors");
}

TrainerRecord parse_trainer(const std::string& text, const std::string& file) {
  return read<TrainerRecord>(parse_json(text, file));
}

namespace {

fs::path folder_of(const std::string& run, int64_t step) {
  return RunFolder(run).checkpoint(step);
}

// Names that are no step are not ours.
std::vector<int64_t> steps_in(const std::string& run) {
  std::vector<int64_t> steps;
  const auto folder = RunFolder(run).checkpoints();
  if (!fs::is_directory(folder)) return steps;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    int64_t step = -1;
    std::from_chars(name.data(), name.data() + name.size(), step);
    if (step >= 0 && std::to_string(step) == name) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code failure;
  fs::create_hard_link(from, to, failure);
  if (failure) fs::copy_file(from, to);
}

// At every moment the target is the old one or the new one, where the system can exchange two
// names.
void replace_folder(const fs::path& draft, const fs::path& target) {
  const bool exchanged = fs::exists(target) && ::renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD,
                                                           target.c_str(), RENAME_EXCHANGE) == 0;
  if (exchanged) {
    fs::remove_all(draft);
    return;
  }
  fs::remove_all(target);
  fs::rename(draft, target);
}

// Whole or not at all, as it was made.
void discard(const std::string& run, int64_t step) {
  const fs::path draft = RunFolder(run).draft();
  fs::remove_all(draft);
  fs::rename(folder_of(run, step), draft);
  fs::remove_all(draft);
}

void thin_out(const std::string& run, const Retention& keep) {
  auto steps = steps_in(run);
  steps.resize(
      static_cast<size_t>(std::max<int64_t>(static_cast<int64_t>(steps.size()) - keep.newest, 0)));
  for (const auto step : steps)
    if (step != keep.best && (keep.every == 0 || step % keep.every != 0)) discard(run, step);
}

// The bytes of a stored file; one without a checksum is of longbow 0.1.0.
std::string checked_file(const fs::path& file, const std::string& checksum) {
  auto bytes = read_file(file.string());
  if (!checksum.empty() && sha256(bytes) != checksum)
    throw UserError(Place{file.string(), 0}, "its sha256 is not the one in trainer.json");
  return bytes;
}

Checkpoint load_checkpoint(const fs::path& folder) {
  const auto file = (folder / "trainer.json").string();
  const auto stored = parse_trainer(read_file(file), file);
  if (std::to_string(stored.progressed.step) != folder.filename())
    throw UserError(Place{file, 0}, "step " + std::to_string(stored.progressed.step) +
                                        " is not that of the folder");
  const auto tensors = [&](const char* name, const std::string& checksum) {
    return parse_safetensors(checked_file(folder / name, checksum), (folder / name).string())
        .tensors;
  };
  if (!stored.progressed.best_sha256.empty())
    checked_file(folder / "best.safetensors", stored.progressed.best_sha256);
  return {stored.progressed, tensors("model.safetensors", stored.model_sha256),
          tensors("optimizer.safetensors", stored.optimizer_sha256)};
}

}  // namespace

void save_checkpoint(const std::string& run, const Progressed& progressed, const Tensors& weights,
                     const Tensors& optimizer, const Retention& keep) {
  const fs::path draft = RunFolder(run).draft();
  fs::remove_all(draft);
  make_folder(draft.string());
  const auto write = [&](const char* name, const Tensors& tensors) {
    const auto file = (draft / name).string();
    save_safetensors(file, tensors);
    return sha256_of_file(file);
  };
  const TrainerRecord stored = {.progressed = progressed,
                                .model_sha256 = write("model.safetensors", weights),
                                .optimizer_sha256 = write("optimizer.safetensors", optimizer)};
  if (!progressed.best_sha256.empty())
    link_or_copy(RunFolder(run).best(), draft / "best.safetensors");
  write_file((draft / "trainer.json").string(), to_json(written(stored), 2) + "\n");
  replace_folder(draft, folder_of(run, progressed.step));
  thin_out(run, keep);
}

bool has_checkpoint(const std::string& run) {
  return !steps_in(run).empty();
}

std::optional<Checkpoint> newest_checkpoint(const std::string& run) {
  auto steps = steps_in(run);
  if (steps.empty()) return {};
  for (; !steps.empty(); steps.pop_back()) {
    try {
      return load_checkpoint(folder_of(run, steps.back()));
    } catch (const UserError& error) {
      warn(std::string(error.what()) + "; the checkpoint of step " + std::to_string(steps.back()) +
           " is damaged and passed over");
    }
  }
  throw UserError(Place{RunFolder(run).checkpoints(), 0}, "every checkpoint is damaged",
                  "train again with another --out");
}

bool return_to(const std::string& run, const Progressed& progressed, const Retention& keep) {
  fs::remove_all(RunFolder(run).draft());
  for (const auto step : steps_in(run))
    if (step > progressed.step) discard(run, step);
  thin_out(run, keep);
  const fs::path best = RunFolder(run).best();
  if (!progressed.best_sha256.empty()) {
    fs::remove(best);
    link_or_copy(folder_of(run, progressed.step) / "best.safetensors", best);
    return true;
  }
  if (progressed.best_step == 0) {
    fs::remove(best);
    return true;
  }
  // Of longbow 0.1.0: the file beside the checkpoints is right when it is of the right step.
  for (const auto& file : {best, fs::path(RunFolder(run).weights())}) {
    if (!fs::exists(file)) continue;
    const auto metadata = load_safetensors(file.string()).metadata;
    const auto step = metadata.find("step");
    if (step == metadata.end() || step->second != std::to_string(progressed.best_step)) continue;
    if (file != best) fs::copy_file(file, best, fs::copy_options::overwrite_existing);
    return true;
  }
  fs::remove(best);
  return false;
}

}  // namespace longbow
