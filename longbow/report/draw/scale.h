#pragma once
#include <functional>
#include <string>
#include <vector>

namespace longbow::reporting {

enum class Spacing { linear, logarithmic };

// Maps values to 0..1 along an axis.
struct Scale {
  Spacing spacing = Spacing::linear;
  double low = 0, high = 1;
  double at(double value) const;
};

// Finite limits that hold every finite value and are wide enough for ticks: round ones on a linear
// scale, a margin on a logarithmic one. Values that are equal but for rounding count as one. Values
// that a logarithm cannot show are ignored; no values give 0..1 or 1..10.
Scale fitted(Spacing spacing, const std::vector<double>& values);

// Round numbers inside the limits, strictly increasing: 1, 2, 2.5, 5 × 10^k; on a logarithmic scale
// whole decades, or 1, 2, 5 × 10^k where there are few. At least three wherever doubles lie close
// enough, at most twelve; none where the limits are not finite and increasing.
std::vector<double> ticks(const Scale& scale, int about = 6);
// For bytes: powers of two, or round numbers of KiB, MiB, … where there are few.
std::vector<double> binary_ticks(const Scale& scale, int about = 6);

using TickText = std::function<std::string(double)>;

struct Axis {
  std::string label;
  Scale scale;
  std::vector<double> marks;
  TickText text;
};

std::string plain_tick(double value, int digits = 4);  // "0.25", "1500", "20k", "3M", "1e-5"
TickText tick_text(const std::vector<double>& marks);  // with the digits that tell marks apart

}  // namespace longbow::reporting
