#pragma once
#include <string>
#include <vector>

#include "longbow/core/config.h"
#include "longbow/report/table/record.h"

namespace longbow::reporting {

// Whether a file says that it has no number here: null, or the word of one that is not finite
// (".inf", "-.inf", ".nan"), which older files hold.
bool is_missing_number(const Node& value);

// Reads metrics.jsonl into one curve per split and quantity. `origin` gives label, task and seed. A
// missing number is a point without a value (NaN) and a note. A half-written last line, which a run
// leaves that is still going or was killed, becomes a note too.
std::vector<Curve> read_curves(const std::string& path, const Curve& origin,
                               std::vector<std::string>& notes);
std::vector<Curve> parse_curves(const std::string& text, const std::string& path,
                                const Curve& origin, std::vector<std::string>& notes);

// A mechanism's curve over its seeds: mean, least and greatest value at each step; NaN where no
// seed has one.
struct Band {
  std::string label, split;
  struct Point {
    double step, mean, low, high;
  };
  std::vector<Point> points;
};

// One band per label and split of the given task and quantity, each thinned to at most `limit`
// points by averaging neighbours.
std::vector<Band> bands(const std::vector<Curve>& curves, const std::string& task,
                        const std::string& quantity, size_t limit = 200);

}  // namespace longbow::reporting
