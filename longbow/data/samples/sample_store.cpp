#include "longbow/data/samples/sample_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "longbow/core/fields.h"
#include "longbow/core/file.h"
#include "longbow/core/file_error.h"
#include "longbow/core/folder.h"
#include "longbow/core/mapped_file.h"
#include "longbow/data/samples/stored_file.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kVersion = 3;
constexpr const char* kLists[] = {"tokens",  "token_ends", "second",     "second_ends",
                                  "targets", "values",     "references", "reference_ends"};

// samples.json
struct StoreCard {
  int64_t version = kVersion, samples = 0, targets = 0, values = 0;
  bool has_second = false, has_reference = false;
  Node checksums = Node::map();
};
template <class V>
void fields(V& v, StoreCard& c) {
  v("version", c.version, "of this format", at_least(0));
  v("samples", c.samples, "how many there are", at_least(0));
  v("targets", c.targets, "of a sample", range(0, 1e6));
  v("values", c.values, "of a sample", range(0, 1e6));
  v("has_second", c.has_second, "whether samples are pairs");
  v("has_reference", c.has_reference, "whether samples keep a text as it was");
  v("checksums", c.checksums, "SHA-256 of each list");
}

std::string in(const std::string& folder, const char* name) {
  return (fs::path(folder) / name).string();
}

class StoredSamples final : public Dataset {
 public:
  explicit StoredSamples(const std::string& folder)
      : card_(read_card<StoreCard>(in(folder, "samples.json"))) {
    if (card_.version != kVersion)
      fail_stored(in(folder, "samples.json"), fmt::format("format {}", card_.version));
    for (size_t i = 0; i < std::size(kLists); ++i) lists_[i] = checked(folder, kLists[i]);
    const auto samples = static_cast<size_t>(card_.samples);
    const bool fits = ends(1).size() == samples && check_ends(ends(1), tokens().size()) &&
                      (!card_.has_second ||
                       (ends(3).size() == samples && check_ends(ends(3), second().size()))) &&
                      (!card_.has_reference ||
                       (ends(7).size() == samples && check_ends(ends(7), references().size()))) &&
                      targets_list().size() == samples * static_cast<size_t>(card_.targets) &&
                      values_list().size() == samples * static_cast<size_t>(card_.values);
    if (!fits) fail_stored(in(folder, "samples.json"), "its lists do not fit together");
  }

  int64_t size() const override { return card_.samples; }
  int64_t length(int64_t i) const override {
    const auto first = part(tokens(), ends(1), i).size();
    return static_cast<int64_t>(
        card_.has_second ? std::max(first, part(second(), ends(3), i).size()) : first);
  }
  Sample get(int64_t i) const override {
    Sample sample;
    assign(sample.tokens, part(tokens(), ends(1), i));
    if (card_.has_second) assign(sample.second, part(second(), ends(3), i));
    assign(sample.targets, row(targets_list(), card_.targets, i));
    assign(sample.values, row(values_list(), card_.values, i));
    if (card_.has_reference) {
      const auto text = part(references(), ends(7), i);
      sample.reference.emplace(text.begin(), text.end());
    }
    return sample;
  }
  int64_t targets() const override { return card_.targets; }
  int64_t values() const override { return card_.values; }
  bool has_second() const override { return card_.has_second; }

  std::span<const int32_t> tokens() const { return lists_[0]->as<int32_t>(); }
  std::span<const int64_t> ends(size_t list) const { return lists_[list]->as<int64_t>(); }

 private:
  std::unique_ptr<MappedFile> checked(const std::string& folder, const char* name) const {
    auto file = std::make_unique<MappedFile>(stored_path(in(folder, name)));
    const auto* sum = card_.checksums.find(name);
    if (!sum || as_string(*sum, name) != checksum_of(*file))
      fail_stored(in(folder, name), "not what was written");
    return file;
  }
  static bool check_ends(std::span<const int64_t> ends, size_t total) {
    return std::is_sorted(ends.begin(), ends.end()) &&
           (ends.empty() ? total == 0
                         : ends.front() >= 0 && static_cast<size_t>(ends.back()) == total);
  }
  std::span<const int32_t> second() const { return lists_[2]->as<int32_t>(); }
  std::span<const int32_t> targets_list() const { return lists_[4]->as<int32_t>(); }
  std::span<const float> values_list() const { return lists_[5]->as<float>(); }
  std::span<const char> references() const { return lists_[6]->as<char>(); }

  template <class T>
  static std::span<const T> part(std::span<const T> all, std::span<const int64_t> ends, int64_t i) {
    const auto index = static_cast<size_t>(i);
    const auto from = index == 0 ? 0 : static_cast<size_t>(ends[index - 1]);
    return all.subspan(from, static_cast<size_t>(ends[index]) - from);
  }
  template <class T>
  static std::span<const T> row(std::span<const T> all, int64_t width, int64_t i) {
    return all.subspan(static_cast<size_t>(i * width), static_cast<size_t>(width));
  }
  template <class T>
  static void assign(std::vector<T>& to, std::span<const T> from) {
    to.assign(from.begin(), from.end());
  }

  StoreCard card_;
  std::unique_ptr<MappedFile> lists_[std::size(kLists)];
};

// Stretches of the tokens of all documents.
class Windows final : public Dataset {
 public:
  Windows(const std::string& folder, const WindowOptions& options)
      : documents_(folder), running_(options.across) {
    const int64_t total = std::ssize(documents_.tokens()), step = options.length - 1;
    if (options.across) {
      add_windows(0, total, step);
      return;
    }
    int64_t from = 0;
    for (const auto end : documents_.ends(1)) {
      add_windows(from, end, step);
      from = end;
    }
  }
  int64_t size() const override { return std::ssize(windows_); }
  int64_t length(int64_t i) const override {
    const auto& window = windows_.at(static_cast<size_t>(i));
    return window.to - window.from;
  }
  int64_t targets() const override { return 0; }
  bool running() const override { return running_; }
  Sample get(int64_t i) const override {
    const auto& window = windows_.at(static_cast<size_t>(i));
    const auto* tokens = documents_.tokens().data();
    return {.tokens = {tokens + window.from, tokens + window.to}};
  }

 private:
  struct Window {
    int64_t from, to;
  };
  void add_windows(int64_t from, int64_t end, int64_t step) {
    for (; end - from > 1; from += step) windows_.push_back({from, std::min(from + step + 1, end)});
  }
  StoredSamples documents_;
  bool running_;
  std::vector<Window> windows_;
};

}  // namespace

SampleWriter::List SampleWriter::opened(const char* name) const {
  List list = {.path = in(folder_, name), .file = {}};
  list.file.open(list.path, std::ios::binary | std::ios::trunc);
  if (!list.file) fail_at(list.path, "cannot be written", errno);
  return list;
}

SampleWriter::SampleWriter(const std::string& folder, const SampleKind& kind)
    : folder_(folder), kind_(kind) {
  make_folder(folder);
  tokens_ = opened(kLists[0]);
  token_ends_ = opened(kLists[1]);
  second_ = opened(kLists[2]);
  second_ends_ = opened(kLists[3]);
  targets_ = opened(kLists[4]);
  values_ = opened(kLists[5]);
  references_ = opened(kLists[6]);
  reference_ends_ = opened(kLists[7]);
}

template <class Values>
void SampleWriter::append(List& list, const Values& values) {
  list.file.write(reinterpret_cast<const char*>(values.data()),
                  static_cast<std::streamsize>(values.size() * sizeof(*values.data())));
  if (!list.file) fail_at(list.path, "cannot be written", errno);
  list.count += std::ssize(values);
}

void SampleWriter::add(const Sample& sample) {
  if (std::ssize(sample.targets) != kind_.targets || std::ssize(sample.values) != kind_.values ||
      !sample.segments.empty() || (!kind_.has_second && !sample.second.empty()) ||
      sample.reference.has_value() != kind_.has_reference)
    throw std::invalid_argument("a sample of another kind than the store's");
  append(tokens_, sample.tokens);
  append(token_ends_, std::vector<int64_t>{tokens_.count});
  if (kind_.has_second) {
    append(second_, sample.second);
    append(second_ends_, std::vector<int64_t>{second_.count});
  }
  append(targets_, sample.targets);
  append(values_, sample.values);
  if (sample.reference) {
    append(references_, *sample.reference);
    append(reference_ends_, std::vector<int64_t>{references_.count});
  }
  ++samples_;
}

void SampleWriter::finish() {
  StoreCard card = {.samples = samples_,
                    .targets = kind_.targets,
                    .values = kind_.values,
                    .has_second = kind_.has_second,
                    .has_reference = kind_.has_reference};
  for (auto* list : {&tokens_, &token_ends_, &second_, &second_ends_, &targets_, &values_,
                     &references_, &reference_ends_}) {
    list->file.close();
    if (!list->file) fail_at(list->path, "cannot be written", errno);
  }
  for (const auto* name : kLists)
    card.checksums[name] = Node::string(checksum_of(MappedFile(in(folder_, name))));
  write_file(in(folder_, "samples.json"), to_json(written(card), 2) + "\n");
}

std::shared_ptr<const Dataset> open_samples(const std::string& folder) {
  return std::make_shared<StoredSamples>(folder);
}

std::shared_ptr<const Dataset> open_windows(const std::string& folder,
                                            const WindowOptions& options) {
  if (options.length < 2) throw std::invalid_argument("a window has at least two tokens");
  return std::make_shared<Windows>(folder, options);
}

}  // namespace longbow
