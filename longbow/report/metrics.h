#pragma once
#include <string>
#include <vector>

#include "longbow/report/record.h"

namespace longbow::reporting {

// Reads metrics.jsonl into one curve per split and quantity. `origin` gives label, task and seed. A
// half-written last line, which a run leaves that is still going or was killed, becomes a note.
std::vector<Curve> read_curves(const std::string& path, const Curve& origin,
                               std::vector<std::string>& notes);

// A mechanism's curve over its seeds: mean, least and greatest value at each step.
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
