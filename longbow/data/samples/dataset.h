#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace longbow {

inline constexpr int32_t kIgnore = -100;  // a position without a target

struct Sample {
  std::vector<int32_t> tokens = {};  // 0 is padding and never occurs here
  // One per token with kIgnore where there is none, or as many as the data set says.
  std::vector<int32_t> targets = {};
  std::vector<int32_t> second = {};    // tokens of the other sequence of a pair or a translation
  std::vector<int32_t> segments = {};  // of each token; empty = all 0
  std::vector<float> values = {};      // what a regression is to find
  // What a written text is compared with, as it was before any of it became tokens.
  std::optional<std::string> reference = {};
};

// Samples by index. Reads are safe from several threads at once.
struct Dataset {
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  // In tokens, of the longer sequence where there are two; without building the sample.
  virtual int64_t length(int64_t i) const = 0;
  virtual Sample get(int64_t i) const = 0;
  virtual bool per_token() const { return false; }     // targets: one per token
  virtual int64_t targets() const { return 1; }        // of a sample, when not one per token
  virtual int64_t values() const { return 0; }         // of a sample
  virtual bool has_second() const { return false; }    // samples are pairs of sequences
  virtual bool has_segments() const { return false; }  // tokens have segments
  // Samples are one running text: each begins with the last token of the one before it.
  virtual bool running() const { return false; }
  // Of the numbers of all samples, the same everywhere.
  std::string checksum() const;
};

class TextCodec;

// Tokens around a text that is read as a whole, 0 = none: [CLS] and [SEP].
struct Frame {
  int64_t first = 0, last = 0;
  int64_t tokens() const { return (first > 0 ? 1 : 0) + (last > 0 ? 1 : 0); }
};

// Of samples that are images, row by row; 0 where they are not.
struct ImageSize {
  int64_t height = 0, width = 0;
};

struct Splits {
  std::shared_ptr<const Dataset> train = {}, valid = {}, test = {};
  int64_t vocabulary = 0, classes = 0, max_length = 0;
  int64_t second_vocabulary = 0;  // of the second sequences; 0 = the same as the first
  // Ids that begin and end a target sequence, 0 = none. Samples hold the end, never the beginning.
  int64_t begin = 0, end = 0;
  int64_t unknown = 0;    // id of words that the vocabulary does not have, 0 = none
  int64_t separator = 0;  // id between the sequences of pairs that were joined, 0 = none were
  Frame frame = {};       // of texts, which the samples of the data do not hold
  ImageSize image = {};
  bool per_token = false;
  // Where samples are texts: their tokenizer, and that of the second sequences where it is another.
  std::shared_ptr<const TextCodec> codec = {}, second_codec = {};
  // By token id; of the second sequences where they have a vocabulary of their own.
  std::vector<std::string> symbols = {}, second_symbols = {};
  std::vector<std::string> labels = {};  // by class, where classes have names
  // sha256 of each split's samples and of each file read
  std::map<std::string, std::string> checksums = {};
  int64_t truncated = 0;  // samples that max_tokens cut
};

// Samples in memory, 16 bits a token.
class MemoryDataset final : public Dataset {
 public:
  enum class Targets { one_class, per_token };
  explicit MemoryDataset(Targets targets) : per_token_(targets == Targets::per_token) {}

  template <class Tokens>
  void add(const Tokens& tokens, std::span<const int32_t> targets) {
    for (auto token : tokens) tokens_.push_back(static_cast<uint16_t>(token));
    ends_.push_back(static_cast<int64_t>(tokens_.size()));
    targets_.insert(targets_.end(), targets.begin(), targets.end());
  }

  int64_t size() const override { return static_cast<int64_t>(ends_.size()) - 1; }
  int64_t length(int64_t i) const override;
  Sample get(int64_t i) const override;
  bool per_token() const override { return per_token_; }

 private:
  bool per_token_;
  std::vector<uint16_t> tokens_;
  std::vector<int64_t> ends_{0};
  std::vector<int32_t> targets_;
};

// Any kind of sample, as it was given; all alike.
class SampleList final : public Dataset {
 public:
  SampleList(std::vector<Sample> samples, bool per_token);
  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  int64_t length(int64_t i) const override;
  Sample get(int64_t i) const override { return samples_.at(static_cast<size_t>(i)); }
  bool per_token() const override { return per_token_; }
  int64_t targets() const override;
  int64_t values() const override;
  bool has_second() const override;
  bool has_segments() const override;

 private:
  std::vector<Sample> samples_;
  bool per_token_;
};

// Fills in the splits, their longest length and their checksums.
void set_splits(Splits& splits, std::shared_ptr<const Dataset> train,
                std::shared_ptr<const Dataset> valid, std::shared_ptr<const Dataset> test);

// Keeps the first `max_tokens` tokens of every sample (0: all) and counts the samples that lost
// some.
Splits truncate(Splits splits, int64_t max_tokens);

}  // namespace longbow
