#include "longbow/data/encoding/pulled_texts.h"

namespace longbow {
namespace {

// A batch is so many texts, or so many bytes of them; kWaiting of them are read ahead.
constexpr size_t kTexts = 512, kBytes = size_t{1} << 20, kWaiting = 8;

}  // namespace

PulledTexts::PulledTexts(TextCorpus::Read read, std::vector<size_t> which)
    : thread_([this, read = std::move(read), which = std::move(which)] { run(read, which); }) {}

PulledTexts::~PulledTexts() {
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void PulledTexts::run(const TextCorpus::Read& read, const std::vector<size_t>& which) {
  std::vector<std::string> texts;
  size_t bytes = 0;
  try {
    read([&](corpus::Record&& record) {
      for (const auto i : which) {
        if (i >= record.texts.size()) continue;
        bytes += record.texts[i].size();
        texts.push_back(std::move(record.texts[i]));
      }
      if (texts.size() < kTexts && bytes < kBytes) return;
      push(std::exchange(texts, {}));
      bytes = 0;
    });
    push(std::move(texts));
  } catch (const Ended&) {
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
}

void PulledTexts::push(std::vector<std::string> texts) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.size() < kWaiting || abandoned_; });
  if (abandoned_) throw Ended();
  waiting_.push_back(std::move(texts));
  changed_.notify_all();
}

bool PulledTexts::next(std::string& text) {
  while (used_ == current_.size()) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !waiting_.empty() || done_; });
    if (waiting_.empty()) {
      if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
      return false;
    }
    current_ = std::move(waiting_.front());
    waiting_.pop_front();
    used_ = 0;
    changed_.notify_all();
  }
  text = std::move(current_[used_++]);
  return true;
}

}  // namespace longbow
