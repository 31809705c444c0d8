#pragma once
// The order of training: batches of samples of similar length. Each epoch is a function of (seed,
// epoch), so a position is two numbers and any of them can be resumed exactly.
#include <cstdint>
#include <vector>

#include "longbow/core/fields.h"

namespace longbow {

struct SamplerConfig {
  int64_t batch_size = 32, batch_tokens = 0;
  int64_t bucket = 64;
  std::vector<int64_t> lengths = {};
  bool shuffle = true;
  bool drop_last = false;
  bool carry = false;
  Node places = {};  // what it was read from: where mistakes are that the samples show
};
template <class V>
void fields(V& v, SamplerConfig& c) {
  v("batch_size", c.batch_size, "samples per batch", range(1, 1e6));
  v("batch_tokens", c.batch_tokens,
    "tokens per batch, padding included, instead of batch_size: short samples are many in a batch, "
    "long ones few, and at least one; 0: off",
    range(0, 1e9));
  v("bucket", c.bucket, "sequences are padded to a multiple of so many tokens", range(1, 1e6));
  v("lengths", c.lengths, "padded lengths in tokens, rising; empty: multiples of `bucket`",
    range(1, 1e9));
  v("shuffle", c.shuffle, "a new order of the samples every epoch");
  v("drop_last", c.drop_last, "leave out batches that are not full");
  v("carry", c.carry,
    "row b of a batch goes on where row b of the batch before ended, and the model remembers what "
    "it has read of a row, up to model.max_length tokens; the order is that of the text");
}

// OptionError `lengths` where they do not rise.
void check_padded_lengths(const SamplerConfig& config);

// Of samples that are padded to `length` tokens.
int64_t samples_per_batch(const SamplerConfig& config, int64_t length);

struct SamplerPosition {
  int64_t epoch = 0, index = 0;  // of the next batch
  bool operator==(const SamplerPosition&) const = default;
};

struct Plan {
  std::vector<int64_t> indices = {};
  int64_t padded_length = 0;
  int64_t epoch = 0, index = 0;
  SamplerPosition after = {};
};

class Sampler {
 public:
  // OptionError `lengths` for a sample that is longer than all of them.
  Sampler(const std::vector<int64_t>& lengths, SamplerConfig config, uint64_t seed);
  Plan next();  // never ends: after an epoch comes the next
  int64_t batches_per_epoch() const { return batches_per_epoch_; }
  SamplerPosition position() const { return position_; }
  void seek(SamplerPosition position);

 private:
  struct Batch {
    std::vector<int64_t> indices;
    int64_t padded_length = 0;
  };
  void plan_epoch(int64_t epoch);
  void plan_rows();
  int64_t samples_per_row() const;

  SamplerConfig config_;
  uint64_t seed_;
  std::vector<int64_t> padded_;  // by sample
  int64_t batches_per_epoch_ = 0;
  SamplerPosition position_;
  int64_t planned_epoch_ = -1;
  std::vector<Batch> planned_;
};

}  // namespace longbow
