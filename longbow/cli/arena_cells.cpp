#include "longbow/cli/arena_cells.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <list>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "longbow/cli/failure.h"
#include "longbow/core/child.h"
#include "longbow/core/file.h"
#include "longbow/core/folder.h"
#include "longbow/core/interruption.h"
#include "longbow/core/run_folder.h"

namespace fs = std::filesystem;

namespace longbow::cli {
namespace {

using arena::ArenaCell;

// One that cannot be read is made again.
std::optional<Result> finished(const RunFolder& folder) {
  if (!fs::exists(folder.results())) return {};
  try {
    return read_result(folder.path());
  } catch (const UserError& error) {
    warn(error.what());
    return {};
  }
}

// The result where there is one of the same config. Otherwise the folder holds the config to train.
std::optional<Result> prepared(const ArenaCell& cell, const RunFolder& folder) {
  const auto text = to_yaml(written(cell.config));
  if (fs::exists(folder.request()) && read_file(folder.request()) == text) return finished(folder);
  fs::remove_all(folder.path());
  make_folder(folder.path());
  write_file(folder.request(), text);
  return {};
}

std::string reason_of(const ChildEnd& end) {
  if (end.signal == 0) return fmt::format("the process ended with code {}", end.code);
  return fmt::format("the process was ended by signal {} ({}){}", end.signal, strsignal(end.signal),
                     end.signal == SIGKILL ? "; the machine may have run out of memory" : "");
}

// How long cells have taken, for the time that the others need.
class Forecast {
 public:
  Queue after(int64_t further) const {
    return {.further = further, .seconds_each = count_ > 0 ? seconds_ / count_ : 0};
  }
  void took(double seconds) {
    seconds_ += seconds;
    ++count_;
  }

 private:
  double seconds_ = 0, count_ = 0;
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A cell's process: `longbow train` on the config in its folder.
class Training {
 public:
  Training(const ArenaCell& cell, size_t index, const std::string& label,
           const CellOptions& options, const Queue& after)
      : index(index), cell_(cell), folder_(fs::path(options.out) / cell.folder) {
    const bool beside = options.jobs > 1;
    fs::remove(folder_.failure());
    const auto threads = std::max<int64_t>(at::get_num_threads() / options.jobs, 1);
    std::vector<std::string> words = {"train",
                                      folder_.request(),
                                      "--out",
                                      folder_.path(),
                                      "--resume",
                                      "--device",
                                      options.device,
                                      "--threads",
                                      std::to_string(threads),
                                      "--progress",
                                      beside ? "off" : options.progress};
    const std::vector<std::string> hidden = {
        "--label",        label,
        "--failure",      folder_.failure(),
        "--further",      std::to_string(after.further),
        "--seconds-each", fmt::format("{}", after.seconds_each)};
    words.insert(words.end(), hidden.begin(), hidden.end());
    child_ = std::make_unique<Child>(words, beside ? folder_.messages() : "");
  }

  void tell_to_end() const { child_->tell_to_end(); }
  std::optional<Result> poll() const {
    const auto end = child_->poll();
    if (!end) return {};
    if (auto result = finished(folder_)) return result;
    if (auto failure = read_failure(folder_.failure()))
      return without_score(cell_, failure->out_of_memory ? "OOM" : "FAIL", failure->text);
    return without_score(cell_, "FAIL", reason_of(*end));
  }
  double seconds() const { return seconds_now() - start_; }

  size_t index;

 private:
  const ArenaCell& cell_;
  RunFolder folder_;
  std::unique_ptr<Child> child_;
  double start_ = seconds_now();
};

void rest() {
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

// A process that measures a finished cell and changes its result, or says why not.
ChildEnd measured(const RunFolder& folder, const CellOptions& options) {
  fs::remove(folder.failure());
  Child child({"train", folder.request(), "--out", folder.path(), "--device", options.device,
               "--threads", std::to_string(at::get_num_threads()), "--progress", "off", "--measure",
               "--failure", folder.failure()},
              folder.messages());
  std::optional<ChildEnd> end;
  for (bool told = false; !(end = child.poll()); rest())
    if (noted_signal() != 0 && !std::exchange(told, true)) child.tell_to_end();
  return *end;
}

}  // namespace

std::string label_of(const std::vector<ArenaCell>& cells, size_t i) {
  const auto& cell = cells[i];
  const bool one_seed = std::all_of(cells.begin(), cells.end(),
                                    [&](const auto& other) { return other.seed == cell.seed; });
  return fmt::format("[{}/{}] {} on {}{}", i + 1, cells.size(), cell.label, cell.task,
                     one_seed ? "" : fmt::format(", seed {}", cell.seed));
}

Result without_score(const ArenaCell& cell, const std::string& status, const std::string& reason) {
  return {.task = cell.task,
          .mechanism = cell.label,
          .seed = cell.seed,
          .metric = "",
          .status = status,
          .reason = reason};
}

void train_cells(const std::vector<ArenaCell>& cells, const CellOptions& options,
                 const CellDone& done) {
  std::list<Training> running;
  Forecast forecast;
  const auto collect = [&] {
    for (auto training = running.begin(); training != running.end();) {
      auto result = training->poll();
      if (!result) {
        ++training;
        continue;
      }
      const auto index = training->index;
      forecast.took(training->seconds());
      training = running.erase(training);
      if (noted_signal() != 0 && result->status != "ok") continue;
      if (options.jobs > 1 && result->status == "ok") {
        result->shared = true;
        write_result(*result, fs::path(options.out) / cells[index].folder);
      }
      done(index, *result);
    }
  };
  const auto wait_for = [&](size_t at_most) {
    bool told = false;
    while (running.size() > at_most) {
      if (noted_signal() != 0 && !told) {
        for (const auto& training : running) training.tell_to_end();
        told = true;
      }
      collect();
      if (running.size() > at_most) rest();
    }
    check_interruption();
  };
  const auto trained_before = [&](const ArenaCell& cell) {
    return fs::exists(RunFolder(fs::path(options.out) / cell.folder).results());
  };
  for (size_t i = 0; i < cells.size(); ++i) {
    const auto& cell = cells[i];
    if (!cell.refusal.empty()) {
      done(i, without_score(cell, "n.a.", cell.refusal));
      continue;
    }
    wait_for(static_cast<size_t>(options.jobs) - 1);
    if (const auto result = prepared(cell, RunFolder(fs::path(options.out) / cell.folder))) {
      done(i, *result);
      continue;
    }
    const auto further =
        std::count_if(cells.begin() + static_cast<int64_t>(i) + 1, cells.end(),
                      [&](const auto& c) { return c.refusal.empty() && !trained_before(c); });
    running.emplace_back(cell, i, label_of(cells, i), options, forecast.after(further));
  }
  wait_for(0);
}

bool measure_alone(const std::vector<ArenaCell>& cells, const CellOptions& options,
                   const CellDone& done) {
  bool all = true;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (!cells[i].refusal.empty()) continue;
    const RunFolder folder(fs::path(options.out) / cells[i].folder);
    const auto before = finished(folder);
    if (!before || before->status != "ok" || !before->shared) continue;
    const auto end = measured(folder, options);
    check_interruption();
    if (const auto result = finished(folder); result && !result->shared) {
      done(i, *result);
      continue;
    }
    const auto failure = read_failure(folder.failure());
    warn(fmt::format("{}: its throughput could not be measured; {}", label_of(cells, i),
                     failure ? failure->text : reason_of(end)));
    all = false;
  }
  return all;
}

}  // namespace longbow::cli
