#pragma once
#include <set>
#include <string>
#include <vector>

namespace longbow::corpus {

// The class names of a corpus: labels are added as records come, and numbered when all are known.
// The order does not depend on that of the records: by value where all labels are numbers, else by
// their bytes.
class ClassNames {
 public:
  void add(const std::string& label) {
    if (!names_.contains(label)) names_.insert(label);
  }
  std::vector<std::string> sorted() const;

 private:
  std::set<std::string> names_;
};

}  // namespace longbow::corpus
