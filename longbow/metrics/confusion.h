#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace longbow::metrics {

// How often each class was predicted for each true class. Batches are added one after another, and
// matrices of parts of the data are summed.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(size_t classes);
  // std::out_of_range for a class that the matrix does not have.
  void add(size_t truth, size_t prediction, double weight = 1);
  void add(std::span<const size_t> truths, std::span<const size_t> predictions,
           std::span<const double> weights = {});
  ConfusionMatrix& operator+=(const ConfusionMatrix& other);

  size_t classes() const { return classes_; }
  double at(size_t truth, size_t prediction) const { return cells_[truth * classes_ + prediction]; }
  double hits(size_t of) const { return at(of, of); }
  double hits() const;
  double truths(size_t of) const;       // the sum of a row
  double predictions(size_t of) const;  // the sum of a column
  double total() const;

 private:
  size_t classes_;
  std::vector<double> cells_;  // [true class, predicted class]
};

// Labels of any kind as numbers of classes: whole numbers in their order, other labels in the order
// of their bytes.
struct IndexedLabels {
  std::vector<std::string> names;
  std::vector<size_t> truths, predictions;
};
IndexedLabels index_labels(std::span<const std::string> truths,
                           std::span<const std::string> predictions);

}  // namespace longbow::metrics
