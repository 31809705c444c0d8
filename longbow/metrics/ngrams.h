#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace longbow::metrics {

// The n-grams of several sequences as numbers, first those of one item, then of two, and so on.
// Equal n-grams have equal numbers, whichever sequence they are in; no hash decides.
class Ngrams {
 public:
  explicit Ngrams(std::vector<std::vector<uint32_t>> sequences);
  void extend();  // to n-grams that are one item longer

  // The n-gram that begins at each position.
  std::span<const uint32_t> of(size_t sequence) const { return numbers_[sequence]; }
  // How often each of the distinct n-grams is in a sequence.
  std::vector<uint32_t> counts(size_t sequence) const;

 private:
  void renumber(std::vector<std::vector<uint64_t>> keys);
  std::vector<std::vector<uint32_t>> items_, numbers_;
  size_t order_ = 1, distinct_ = 0;
};

// Of two lists of counts, what they share: the sum of the smaller ones.
int64_t shared_count(std::span<const uint32_t> left, std::span<const uint32_t> right);

}  // namespace longbow::metrics
