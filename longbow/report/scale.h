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

// Limits that hold every value: round ones on a linear scale, a margin on a logarithmic one. Values
// that a logarithm cannot show are ignored; no values give 0..1 or 1..10.
Scale fitted(Spacing spacing, const std::vector<double>& values);

// Round numbers inside the limits: 1, 2, 2.5, 5 × 10^k; on a logarithmic scale whole decades, or 1,
// 2, 5 × 10^k where there are few.
std::vector<double> ticks(const Scale& scale, int about = 6);
std::vector<double> binary_ticks(const Scale& scale, int about = 6);  // powers of two, for bytes

struct Axis {
  std::string label;
  Scale scale;
  std::vector<double> marks;
  std::function<std::string(double)> text;
};

std::string plain_tick(double value);  // "0.25", "1500", "20k", "3M"

}  // namespace longbow::reporting
