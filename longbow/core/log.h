#pragma once
// The console: one line per message on stderr, progress on one line of its own when stderr is a
// terminal.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace longbow {

enum class Level { debug, info, warning, error };
void set_log_level(Level level);
void log(Level level, const std::string& message);
inline void info(const std::string& message) {
  log(Level::info, message);
}
inline void warn(const std::string& message) {
  log(Level::warning, message);
}

enum class ProgressStyle { automatic, bar, plain, json, off };
ProgressStyle parse_progress(const std::string& text);  // auto, bar, plain, json, off

// Work of the same kind that follows, for the time that is left in all.
struct Queue {
  int64_t further = 0;
  double seconds_each = 0;  // 0 = as long as this one
};

struct ProgressTiming {
  double seconds_between = 5;     // plain lines
  double quiet = 0;               // nothing is shown in the first so many seconds
  std::function<double()> now{};  // seconds on any steady clock; empty: the machine's
  Queue after{};
};

// How much of the time that work may take is used up. The work is over when all of it is, whatever
// has been done by then.
struct TimeLimit {
  double used = 0, most = 0;  // seconds; most = 0: there is no limit
};

// A number that is shown; `text` is how people read it.
struct ProgressValue {
  std::string name;
  double value = 0;
  std::string (*text)(double) = nullptr;  // none = four digits
  bool minor = false;                     // left out first where a bar has no room
};

// step/total, named values in order, elapsed, ETA. A bar redraws in place and keeps to one line,
// the ETA in it; plain prints a line every few seconds; json prints one object an update, the
// values as numbers. Where time is limited, percentage and ETA are those of what ends first: the
// steps or the time. Safe to call from several threads.
class Progress {
 public:
  using Values = std::vector<ProgressValue>;
  // A total of 0 means unknown.
  Progress(std::string label, int64_t total, ProgressStyle style, ProgressTiming timing = {});
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void update(int64_t step, const Values& values, const TimeLimit& limit = {});
  void finish();  // erases the bar, so that the next line starts clean

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// For people: 12.3k, 4.56M, 1.5 GiB, 1m23s.
std::string human_count(double value);
std::string human_bytes(double bytes);
std::string human_seconds(double seconds);

}  // namespace longbow
