#pragma once
// The texts of records that a reader pushes, for one that pulls them: a thread reads ahead.
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "longbow/data/encoding/text_corpus.h"

namespace longbow {

class PulledTexts {
 public:
  // The texts of these places in a record: 0, 1, or both.
  PulledTexts(TextCorpus::Read read, std::vector<size_t> which);
  ~PulledTexts();                // ends the reading, wherever it is
  bool next(std::string& text);  // false after the last; rethrows what the reader threw

 private:
  struct Ended {};
  void run(const TextCorpus::Read& read, const std::vector<size_t>& which);
  void push(std::vector<std::string> texts);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::vector<std::string>> waiting_;
  std::vector<std::string> current_;
  size_t used_ = 0;
  bool done_ = false, abandoned_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace longbow
