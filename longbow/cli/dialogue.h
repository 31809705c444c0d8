#pragma once
// Lines that somebody types at a terminal: each is answered before the next one is read.
#include <cstdint>
#include <functional>
#include <string>

#include "longbow/cli/asking.h"

namespace longbow::cli {

// Whether the lines of `file` are typed: it is "-", and stdin is a terminal.
bool is_typed(const std::string& file);

// Says what may be typed, then gives each line to `answer` until the input ends or `limit` lines
// were read (0: no limit). A mistake in a line is shown, and the next line is asked for.
void converse(const TrainedModel& model, int64_t limit,
              const std::function<void(const predict::Line&)>& answer);

// What is drawn for a typed line: the same line typed again is answered with other draws.
inline uint64_t typed_seed(uint64_t seed, const predict::Line& line) {
  return seed + static_cast<uint64_t>(line.place.line) - 1;
}

}  // namespace longbow::cli
