#include "longbow/text/trainers/word_counts.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

namespace longbow {
namespace {

constexpr size_t kBatchBytes = size_t{1} << 18;
constexpr size_t kLocalWords = size_t{1} << 16;

struct WordHash {
  using is_transparent = void;
  size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
};
using Counts = std::unordered_map<std::string, int64_t, WordHash, std::equal_to<>>;

void add(Counts& counts, std::string_view word, int64_t count) {
  const auto found = counts.find(word);
  if (found != counts.end())
    found->second += count;
  else
    counts.emplace(word, count);
}

// Texts on their way from the reader to the workers; few at a time, so that a slow worker holds the
// reader back.
class TextQueue {
 public:
  using Batch = std::vector<std::string>;
  explicit TextQueue(size_t most) : most_(most) {}

  bool push(Batch batch) {  // false once a worker has failed
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return failed_ || batches_.size() < most_; });
    if (failed_) return false;
    batches_.push_back(std::move(batch));
    changed_.notify_all();
    return true;
  }
  bool pop(Batch& batch) {  // false when nothing more will come
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return failed_ || closed_ || !batches_.empty(); });
    if (failed_ || batches_.empty()) return false;
    batch = std::move(batches_.front());
    batches_.pop_front();
    changed_.notify_all();
    return true;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  void fail(std::exception_ptr error) {  // the first error is the one to report
    const std::lock_guard lock(mutex_);
    if (!failed_) failed_ = std::move(error);
    changed_.notify_all();
  }
  std::exception_ptr failure() {
    const std::lock_guard lock(mutex_);
    return failed_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> batches_;
  size_t most_;
  bool closed_ = false;
  std::exception_ptr failed_;
};

// One table for all workers, in parts with a lock each: a word has one entry however many workers
// meet it.
class SharedCounts {
 public:
  void take(Counts& local) {
    for (const auto& [word, count] : local) {
      auto& part = parts_[WordHash{}(word) % parts_.size()];
      const std::lock_guard lock(part.mutex);
      add(part.counts, word, count);
    }
    local.clear();
  }
  std::vector<WordCount> sorted() {
    std::vector<WordCount> all;
    for (auto& part : parts_)
      while (!part.counts.empty()) {
        auto node = part.counts.extract(part.counts.begin());
        all.push_back({std::move(node.key()), node.mapped()});
      }
    std::sort(all.begin(), all.end(),
              [](const WordCount& a, const WordCount& b) { return a.word < b.word; });
    return all;
  }

 private:
  struct Part {
    std::mutex mutex;
    Counts counts;
  };
  std::array<Part, 64> parts_;
};

void work(TextQueue& queue, const SplitWords& split, SharedCounts& shared) try {
  Counts local;
  const TakeWord take = [&local](std::string_view word) {
    if (!word.empty()) add(local, word, 1);
  };
  TextQueue::Batch batch;
  while (queue.pop(batch)) {
    for (const auto& text : batch) split(text, take);
    if (local.size() >= kLocalWords) shared.take(local);
  }
  shared.take(local);
} catch (...) {
  queue.fail(std::current_exception());
}

void feed(TextQueue& queue, const NextText& next, const CountingOptions& options) try {
  int64_t bytes = 0;
  bool more = true;
  while (more) {
    TextQueue::Batch batch;
    std::string text;
    size_t size = 0;
    while (size < kBatchBytes && (more = next(text))) {
      size += text.size() + 1;
      batch.push_back(std::move(text));
      text.clear();
    }
    bytes += static_cast<int64_t>(size);
    if (options.read) options.read(bytes);
    if (!batch.empty() && !queue.push(std::move(batch))) break;
  }
  queue.close();
} catch (...) {
  queue.fail(std::current_exception());
}

}  // namespace

SplitWords split_by(NormalizerPtr normalizer, PreTokenizerPtr pre_tokenizer) {
  return [normalizer, pre_tokenizer](std::string_view text, const TakeWord& take) {
    using Alignment = AlignedText::Alignment;
    const bool is_aligned = pre_tokenizer && pre_tokenizer->needs_alignment();
    TextPieces pieces;
    pieces.text.assign(text, 0, is_aligned ? Alignment::kept : Alignment::none);
    if (normalizer) normalizer->apply(pieces.text);
    if (pieces.text.empty()) return;
    pieces.list.push_back({0, static_cast<uint32_t>(pieces.text.view().size()), -1});
    if (pre_tokenizer) pre_tokenizer->split(pieces);
    for (const auto& piece : pieces.list) take(pieces.view(piece));
  };
}

std::vector<WordCount> count_words(const NextText& next, const SplitWords& split,
                                   const CountingOptions& options) {
  const unsigned count =
      options.threads > 0 ? options.threads : std::max(std::thread::hardware_concurrency(), 1u);
  TextQueue queue(2 * size_t{count});
  SharedCounts shared;
  {
    std::vector<std::jthread> workers;
    for (unsigned i = 0; i < count; ++i) workers.emplace_back([&] { work(queue, split, shared); });
    feed(queue, next, options);
  }
  if (const auto error = queue.failure()) std::rethrow_exception(error);
  return shared.sorted();
}

}  // namespace longbow
