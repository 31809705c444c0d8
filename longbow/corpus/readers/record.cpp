#include "longbow/corpus/readers/record.h"

#include <algorithm>
#include <limits>

namespace longbow::corpus {

Place Record::place() const {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  return {file ? *file : "", static_cast<int>(std::min(line, kMost))};
}

ReadCounts& ReadCounts::operator+=(const ReadCounts& other) {
  records += other.records;
  skipped += other.skipped;
  repaired += other.repaired;
  return *this;
}

}  // namespace longbow::corpus
