#pragma once
// How numbers are written: one place, so that the page, the Markdown and the console agree.
#include <string>

namespace longbow::reporting {

bool is_fraction(const std::string& metric);                  // accuracy, F1, …: shown in percent
bool lower_is_better(const std::string& metric);              // loss, perplexity, …
double shown_score(double score, const std::string& metric);  // in the unit of the tables
std::string score_unit(const std::string& metric);            // "%" or ""
std::string score_text(double shown, const std::string& metric);

std::string duration_text(double seconds);  // "12.3 µs": for one call
std::string exponent_text(double exponent);
std::string exact_text(double value);  // the shortest text that reads back as the same number

}  // namespace longbow::reporting
