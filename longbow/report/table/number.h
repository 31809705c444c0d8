#pragma once
// How numbers are written: one place, so that the page, the Markdown and the console agree.
#include <string>

namespace longbow {
struct Cell;
}

namespace longbow::reporting {

// What a metric is and how its values are written.
struct Measure {
  std::string name = "score";
  bool percent = false;  // a share of 1, shown in percent
  bool larger_is_better = true;

  double shown(double value) const { return percent ? 100 * value : value; }
  std::string unit() const { return percent ? "%" : ""; }
  std::string heading() const;               // "accuracy %", "perplexity"
  std::string text(double shown) const;      // in the unit of the tables: "57.31", "3.142"
  std::string sentence(double value) const;  // "accuracy 57.31 %", "perplexity 3.142"
};
// By its name: accuracies, F1, … are shares; losses, perplexities, … are better when small.
Measure measure_of(const std::string& metric);
Measure measure_of(const Cell& cell);  // what the cell says of its own metric comes first

std::string duration_text(double seconds);  // "12.3 µs": for one call
std::string exponent_text(double exponent);
std::string exact_text(double value);  // the shortest text that reads back as the same number

}  // namespace longbow::reporting
