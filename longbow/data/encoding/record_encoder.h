#pragma once
// Records as samples, with the tokens of a codec.
#include <map>
#include <optional>
#include <string_view>

#include "longbow/data/encoding/text_corpus.h"
#include "longbow/data/samples/text_codec.h"

namespace longbow {

struct EncoderParts {
  std::shared_ptr<const TextCodec> codec = {}, second = {};  // `second` where it is another
  std::vector<std::string> labels = {};
  int64_t begin = 0, end = 0;  // of a target or a line, 0 = none
  int64_t max_tokens = 0;      // of each text; 0 = any
  int64_t max_bytes = 0;       // of each text that can become tokens which are kept; 0 = all
};

class RecordEncoder {
 public:
  RecordEncoder(const TextCorpus& corpus, EncoderParts parts);

  SampleKind kind() const;
  // Safe from several threads. Nothing for a record that cannot be a sample: an answer behind the
  // last token that is kept. `cut` tells whether max_tokens has cut a text.
  std::optional<Sample> sample(const corpus::Record& record, bool& cut) const;

 private:
  std::string_view readable(std::string_view text) const;
  void keep_first(std::vector<int32_t>& ids, bool& cut) const;
  int32_t class_of(const corpus::Record& record) const;
  float value_of(const corpus::Record& record) const;
  bool find_answer(const corpus::Record& record, Sample& sample) const;

  TextRole role_;
  bool pairs_, keep_lines_;
  EncoderParts parts_;
  int32_t stand_in_ = 1;  // for a text without tokens: the unknown one where there is one
  std::map<std::string, int32_t> classes_;
};

}  // namespace longbow
