#include "longbow/metrics/likelihood.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace longbow::metrics {
namespace {

double nats_per(const LikelihoodSums& sums, int64_t count) {
  if (count == 0) return std::numeric_limits<double>::quiet_NaN();
  return sums.negative_log_likelihood / static_cast<double>(count);
}

}  // namespace

LikelihoodSums& LikelihoodSums::operator+=(const LikelihoodSums& other) {
  negative_log_likelihood += other.negative_log_likelihood;
  tokens += other.tokens;
  words += other.words;
  bytes += other.bytes;
  characters += other.characters;
  return *this;
}

double perplexity_per_token(const LikelihoodSums& sums) {
  return std::exp(nats_per(sums, sums.tokens));
}

double perplexity_per_word(const LikelihoodSums& sums) {
  return std::exp(nats_per(sums, sums.words));
}

double bits_per_byte(const LikelihoodSums& sums) {
  return nats_per(sums, sums.bytes) / std::numbers::ln2;
}

double bits_per_character(const LikelihoodSums& sums) {
  return nats_per(sums, sums.characters) / std::numbers::ln2;
}

}  // namespace longbow::metrics
