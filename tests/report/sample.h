#pragma once
// Records to report on, folders to load them from, and a checker of markup.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "longbow/report/table/record.h"

namespace longbow::sample {

inline Cell cell(const std::string& mechanism, const std::string& task, int64_t seed,
                 double score) {
  return {.mechanism = mechanism,
          .task = task,
          .seed = seed,
          .metric = "accuracy",
          .score = score,
          .parameters = 2.5e6,
          .tokens_per_second = 20000,
          .peak_bytes = 3.0 * (1 << 20),
          .seconds = 90,
          .split = "test",
          .chosen_by = "valid"};
}

inline Cell failure(const std::string& mechanism, const std::string& task,
                    const std::string& status, const std::string& reason) {
  return {.mechanism = mechanism, .task = task, .status = status, .reason = reason};
}

inline Record arena() {
  Record record{.title = "lra-small",
                .kind = "arena",
                .date = "2026-11-15",
                .context = {{"command", "longbow arena lra.yaml"}, {"commit", "3f2a91c"}}};
  record.cells = {cell("softmax", "listops", 0, 0.5), cell("softmax", "listops", 1, 0.54),
                  cell("linformer", "listops", 0, 0.4275),
                  failure("reformer", "listops", "OOM", "needs 9 GiB")};
  record.cells.push_back({.mechanism = "majority",
                          .task = "listops",
                          .metric = "accuracy",
                          .score = 0.17,
                          .status = "baseline"});
  record.curves = {{.label = "softmax",
                    .task = "listops",
                    .quantity = "loss",
                    .split = "train",
                    .points = {{1, 2.0}, {2, 1.5}, {3, 1.25}}},
                   {.label = "softmax",
                    .task = "listops",
                    .quantity = "loss",
                    .split = "valid",
                    .points = {{1, 2.1}, {3, 1.5}}}};
  return record;
}

inline Record bench() {
  Record record{.title = "bench", .kind = "bench"};
  for (double length : {256.0, 1024.0, 4096.0}) {
    auto softmax = 1e-9 * length * length, linear = 1e-6 * length;
    record.benchmarks.push_back({.mechanism = "softmax",
                                 .mode = "forward",
                                 .length = length,
                                 .seconds = softmax,
                                 .p20 = softmax * 0.9,
                                 .p80 = softmax * 1.1,
                                 .peak_bytes = length * 1024,
                                 .error = 2e-7});
    record.benchmarks.push_back({.mechanism = "linear",
                                 .mode = "forward",
                                 .length = length,
                                 .seconds = linear,
                                 .peak_bytes = length * 2048,
                                 .error = 3e-7});
  }
  record.benchmarks.push_back({.mechanism = "naive",
                               .mode = "forward",
                               .length = 4096,
                               .status = "OOM",
                               .reason = "needs 16 GiB"});
  record.growth = {
      {.mechanism = "softmax", .mode = "forward", .time_exponent = 2, .memory_exponent = 1},
      {.mechanism = "linear",
       .mode = "forward",
       .time_exponent = 1,
       .memory_exponent = 1,
       .crossover_length = 1000}};
  return record;
}

// A folder that goes away with the test.
class Folder {
 public:
  Folder() {
    auto pattern = (std::filesystem::temp_directory_path() / "longbow_report_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string str() const { return path_.string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

// "" when every element is closed by its own tag, else the first that is not. Knows the void
// elements of HTML and skips what stands in <style> and <script>.
inline std::string unbalanced(const std::string& markup) {
  std::vector<std::string> open;
  for (size_t at = markup.find('<'); at != std::string::npos; at = markup.find('<', at + 1)) {
    auto end = markup.find('>', at);
    if (end == std::string::npos) return "'<' without '>'";
    auto inside = markup.substr(at + 1, end - at - 1);
    auto name = inside.substr(0, inside.find_first_of(" \n/", 1));
    if (name == "!doctype" || name == "meta" || inside.ends_with('/')) continue;
    if (!name.starts_with('/')) {
      open.push_back(name);
      if (name == "style" || name == "script") at = markup.find("</" + name, end) - 1;
      continue;
    }
    if (open.empty() || "/" + open.back() != name) return name;
    open.pop_back();
  }
  return open.empty() ? "" : open.back();
}

inline size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

}  // namespace longbow::sample
