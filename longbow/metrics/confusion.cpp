#include "longbow/metrics/confusion.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace longbow::metrics {
namespace {

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

void sort_names(std::vector<std::string>& names) {
  if (!std::ranges::all_of(names, [](const auto& name) { return whole_number(name).has_value(); }))
    return;  // sorted by bytes already
  // 1 and 01 are one number but two labels.
  std::ranges::sort(names, [](const std::string& left, const std::string& right) {
    const auto first = whole_number(left), second = whole_number(right);
    return first != second ? first < second : left < right;
  });
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(size_t classes) : classes_(classes), cells_(classes * classes) {}

void ConfusionMatrix::add(size_t truth, size_t prediction, double weight) {
  if (truth >= classes_ || prediction >= classes_)
    throw std::out_of_range("ConfusionMatrix: class " +
                            std::to_string(std::max(truth, prediction)) + " of " +
                            std::to_string(classes_));
  cells_[truth * classes_ + prediction] += weight;
}

void ConfusionMatrix::add(std::span<const size_t> truths, std::span<const size_t> predictions,
                          std::span<const double> weights) {
  if (truths.size() != predictions.size() || (!weights.empty() && weights.size() != truths.size()))
    throw std::invalid_argument(
        "ConfusionMatrix: truths, predictions and weights differ in number");
  for (size_t i = 0; i < truths.size(); ++i)
    add(truths[i], predictions[i], weights.empty() ? 1 : weights[i]);
}

ConfusionMatrix& ConfusionMatrix::operator+=(const ConfusionMatrix& other) {
  if (other.classes_ != classes_)
    throw std::invalid_argument("ConfusionMatrix: matrices of different numbers of classes");
  for (size_t i = 0; i < cells_.size(); ++i) cells_[i] += other.cells_[i];
  return *this;
}

double ConfusionMatrix::hits() const {
  double sum = 0;
  for (size_t i = 0; i < classes_; ++i) sum += hits(i);
  return sum;
}

double ConfusionMatrix::truths(size_t of) const {
  double sum = 0;
  for (size_t i = 0; i < classes_; ++i) sum += at(of, i);
  return sum;
}

double ConfusionMatrix::predictions(size_t of) const {
  double sum = 0;
  for (size_t i = 0; i < classes_; ++i) sum += at(i, of);
  return sum;
}

double ConfusionMatrix::total() const {
  double sum = 0;
  for (size_t i = 0; i < classes_; ++i) sum += truths(i);
  return sum;
}

IndexedLabels index_labels(std::span<const std::string> truths,
                           std::span<const std::string> predictions) {
  IndexedLabels labels;
  auto& names = labels.names;
  names.assign(truths.begin(), truths.end());
  names.insert(names.end(), predictions.begin(), predictions.end());
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());

  // Found by bytes, numbered by the order that is shown.
  const auto sorted = names;
  sort_names(names);
  std::vector<size_t> number(names.size());
  for (size_t i = 0; i < names.size(); ++i)
    number[static_cast<size_t>(std::ranges::lower_bound(sorted, names[i]) - sorted.begin())] = i;
  const auto index = [&](std::span<const std::string> texts) {
    std::vector<size_t> found;
    found.reserve(texts.size());
    for (const auto& text : texts)
      found.push_back(
          number[static_cast<size_t>(std::ranges::lower_bound(sorted, text) - sorted.begin())]);
    return found;
  };
  labels.truths = index(truths);
  labels.predictions = index(predictions);
  return labels;
}

}  // namespace longbow::metrics
