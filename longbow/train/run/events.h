#pragma once
// TensorBoard's event files: records of protocol buffers, each framed by its length and two
// checksums. Written and read by hand.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longbow {

// The Castagnoli checksum of some bytes, rotated and shifted as the framing wants it.
uint32_t masked_crc32c(std::string_view bytes);

// One record with its framing.
std::string framed(std::string_view payload);

// Payloads. Times are seconds since 1970.
std::string version_event(double time);
std::string scalar_event(double time, int64_t step, const std::string& tag, float value);
std::string text_event(double time, int64_t step, const std::string& tag, const std::string& text);

struct Event {
  int64_t offset = 0, length = 0;  // of the record in the file; of its payload
  double time = 0;
  int64_t step = 0;
  std::string version;  // of the file, in its first record
  std::string tag, plugin;
  float value = 0;                   // of a scalar
  std::vector<std::string> strings;  // of a text
};
// The records up to the first one that is torn or does not match its checksums.
std::vector<Event> parse_events(std::string_view bytes);

// Where the log of a run goes on. What it does not keep will be written again.
struct LogStart {
  int64_t step = 0;
  bool evaluated = true;  // false: the evaluation of the step is still to be made
  bool keeps(std::string_view split, int64_t of_step) const;
};

// The event file of a run folder: the newest one there, cut to what the start keeps and continued,
// or a new one. Texts are written anew in any case and so are cut too.
class EventFile {
 public:
  EventFile(const std::string& folder, const LogStart& start);
  // By tag; one write for all of them.
  void scalars(int64_t step, const std::vector<std::pair<std::string, double>>& values);
  void text(int64_t step, const std::string& tag, const std::string& text);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace longbow
