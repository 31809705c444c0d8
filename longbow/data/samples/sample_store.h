#pragma once
// Samples on disk, as many as there are: a folder with one file for each list, and samples.json
// with what they are and their checksums. They are read through a memory map.
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "longbow/data/samples/dataset.h"

namespace longbow {

// What the samples of a data set have.
struct SampleKind {
  int64_t targets = 1, values = 0;  // of each sample
  bool has_second = false, has_reference = false;
};

class SampleWriter {
 public:
  // Makes the folder. finish() writes what makes it one that can be opened.
  SampleWriter(const std::string& folder, const SampleKind& kind);
  void add(const Sample& sample);  // without segments, and not one target per token
  void finish();

 private:
  struct List {
    std::string path;
    std::ofstream file;
    int64_t count = 0;
  };
  template <class Values>
  void append(List& list, const Values& values);
  List opened(const char* name) const;

  std::string folder_;
  SampleKind kind_;
  int64_t samples_ = 0;
  List tokens_, token_ends_, second_, second_ends_, targets_, values_, references_, reference_ends_;
};

// Checks sizes and checksums: a UserError names the file that is not as it was written.
std::shared_ptr<const Dataset> open_samples(const std::string& folder);

// The tokens of stored samples as one running text in windows, for language models.
struct WindowOptions {
  int64_t length = 256;  // tokens of a window
  bool across = true;    // a window may hold the end of one sample and the beginning of the next
};
// A window begins with the last token of the one before it, so that every token but the first of a
// text is one to be predicted.
std::shared_ptr<const Dataset> open_windows(const std::string& folder,
                                            const WindowOptions& options);

}  // namespace longbow
