#include "longbow/data/encoding/record_encoder.h"

#include <algorithm>

#include "longbow/core/error.h"

namespace longbow {
namespace {

// Rows without what is to be learnt are given where `empty` is `keep`.
[[noreturn]] void fail_empty(const corpus::Record& record, const std::string& what) {
  throw UserError(record.place(), "there is no " + what + " to learn", "set empty: skip");
}

}  // namespace

RecordEncoder::RecordEncoder(const TextCorpus& corpus, EncoderParts parts)
    : role_(corpus.role),
      pairs_(corpus.pairs),
      keep_lines_(corpus.keep_lines),
      parts_(std::move(parts)) {
  if (const auto unknown = parts_.codec->find({"[UNK]", "<unk>"}); unknown > 0)
    stand_in_ = static_cast<int32_t>(unknown);
  for (const auto& label : parts_.labels)
    classes_.emplace(label, static_cast<int32_t>(classes_.size()));
}

SampleKind RecordEncoder::kind() const {
  switch (role_) {
    case TextRole::texts:
      return {.targets = 0, .has_second = pairs_};
    case TextRole::classes:
      return {.targets = 1, .has_second = pairs_};
    case TextRole::value:
      return {.targets = 0, .values = 1, .has_second = pairs_};
    case TextRole::language:
      return {.targets = 0};
    case TextRole::translation:
      return {.targets = 0, .has_second = true};
    case TextRole::questions:
      return {.targets = 2, .has_second = true};
  }
  throw std::invalid_argument("a role without a kind");
}

// The beginning that decides what is kept: one more byte than that, for keep_first to see that
// there is more, and the rest of a character.
std::string_view RecordEncoder::readable(std::string_view text) const {
  auto end = static_cast<size_t>(parts_.max_bytes) + 1;
  if (parts_.max_bytes == 0 || text.size() <= end) return text;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
  return text.substr(0, end);
}

void RecordEncoder::keep_first(std::vector<int32_t>& ids, bool& cut) const {
  if (parts_.max_tokens == 0 || std::ssize(ids) <= parts_.max_tokens) return;
  ids.resize(static_cast<size_t>(parts_.max_tokens));
  cut = true;
}

int32_t RecordEncoder::class_of(const corpus::Record& record) const {
  if (record.label.empty()) fail_empty(record, "label");
  if (const auto found = classes_.find(record.label); found != classes_.end()) return found->second;
  throw UserError(record.place(),
                  "label " + quote(record.label) + " does not occur in the training split",
                  suggest(record.label, parts_.labels));
}

float RecordEncoder::value_of(const corpus::Record& record) const {
  if (!record.value) fail_empty(record, "value");
  return static_cast<float>(*record.value);
}

// The tokens that the first answer touches. A question without an answer has no target.
bool RecordEncoder::find_answer(const corpus::Record& record, Sample& sample) const {
  sample.targets = {kIgnore, kIgnore};
  if (record.answers.empty()) return true;
  const auto& answer = record.answers.front();
  const auto from = static_cast<uint64_t>(answer.byte), to = from + answer.text.size();
  const auto offsets = parts_.codec->offsets(record.texts.at(1));
  int32_t first = -1, last = -1;
  for (size_t i = 0; i < offsets.size(); ++i)
    if (offsets[i].end > from && offsets[i].begin < to) {
      if (first < 0) first = static_cast<int32_t>(i);
      last = static_cast<int32_t>(i);
    }
  if (first < 0 || last >= std::ssize(sample.second)) return false;
  sample.targets = {first, last};
  return true;
}

std::optional<Sample> RecordEncoder::sample(const corpus::Record& record, bool& cut) const {
  Sample sample;
  parts_.codec->encode(readable(record.texts.at(0)), sample.tokens);
  const bool has_second = kind().has_second;
  if (has_second)
    (parts_.second ? parts_.second : parts_.codec)
        ->encode(readable(record.texts.at(1)), sample.second);
  if (role_ == TextRole::language) {
    if (keep_lines_ && parts_.end > 0) sample.tokens.push_back(static_cast<int32_t>(parts_.end));
    return sample;
  }
  keep_first(sample.tokens, cut);
  keep_first(sample.second, cut);
  if (sample.tokens.empty()) sample.tokens.push_back(stand_in_);
  if (has_second && sample.second.empty() && role_ != TextRole::translation)
    sample.second.push_back(stand_in_);
  if (role_ == TextRole::translation) {
    if (parts_.max_tokens > 0 && std::ssize(sample.second) == parts_.max_tokens) {
      sample.second.pop_back();
      cut = true;
    }
    sample.second.push_back(static_cast<int32_t>(parts_.end));
  }
  if (role_ == TextRole::classes) sample.targets = {class_of(record)};
  if (role_ == TextRole::value) sample.values = {value_of(record)};
  if (role_ == TextRole::questions && !find_answer(record, sample)) return {};
  return sample;
}

}  // namespace longbow
