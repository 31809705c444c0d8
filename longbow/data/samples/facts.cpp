#include "longbow/data/samples/facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "longbow/core/fields.h"

namespace longbow {
namespace {

constexpr int64_t kBeginnings = 10000;  // training samples whose first tokens are counted

// A split of a known kind of samples that has none.
class NoSamples final : public Dataset {
 public:
  struct Kind {
    bool per_token = false, pairs = false;
    int64_t targets = 1, values = 0;
  };
  explicit NoSamples(Kind kind) : kind_(kind) {}
  int64_t size() const override { return 0; }
  int64_t length(int64_t) const override { throw std::out_of_range("there are no samples"); }
  Sample get(int64_t) const override { throw std::out_of_range("there are no samples"); }
  bool per_token() const override { return kind_.per_token; }
  int64_t targets() const override { return kind_.targets; }
  int64_t values() const override { return kind_.values; }
  bool has_second() const override { return kind_.pairs; }

 private:
  Kind kind_;
};

void leave_out_samples(Splits& splits, const NoSamples::Kind& kind) {
  splits.train = splits.valid = splits.test = std::make_shared<NoSamples>(kind);
}

NoSamples::Kind kind_of(const Dataset& data) {
  return {.per_token = data.per_token(),
          .pairs = data.has_second(),
          .targets = data.targets(),
          .values = data.values()};
}

struct Stored {
  DataFacts facts = {};
  NoSamples::Kind kind = {};
};
template <class V>
void fields(V& v, Stored& s) {
  constexpr double kMost = 1 << 30;
  auto& splits = s.facts.splits;
  v("vocabulary", splits.vocabulary, "token ids, with 0 for padding", range(0, kMost));
  v("second_vocabulary", splits.second_vocabulary,
    "token ids of the second sequences; 0 = the same as of the first", range(0, kMost));
  v("classes", splits.classes, "classes of a target", range(0, kMost));
  v("targets", s.kind.targets, "of a sample, when not one per token", range(0, kMost));
  v("values", s.kind.values, "of a sample, in a regression", range(0, kMost));
  v("per_token", splits.per_token, "whether every token has a target");
  v("pairs", s.kind.pairs, "whether samples are pairs of sequences");
  v("max_length", splits.max_length, "tokens of the longest sample", range(0, kMost));
  v("begin", splits.begin, "id that begins a target sequence; 0 = none", range(0, kMost));
  v("end", splits.end, "id that ends a target sequence; 0 = none", range(0, kMost));
  v("unknown", splits.unknown, "id of words outside the vocabulary; 0 = they are refused",
    range(0, kMost));
  v("frame_first", splits.frame.first, "id before a text; 0 = none", range(0, kMost));
  v("frame_last", splits.frame.last, "id after a text; 0 = none", range(0, kMost));
  v("image_height", splits.image.height, "of samples that are images, row by row; 0 = they are not",
    range(0, kMost));
  v("image_width", splits.image.width, "the same", range(0, kMost));
  v("symbols", splits.symbols, "by token id; empty: ids are shown");
  v("second_symbols", splits.second_symbols, "of the second sequences, where they have their own");
  v("labels", splits.labels, "by class, where classes have names");
  v("first_tokens", s.facts.first_tokens, "what training samples begin with");
  v("first_counts", s.facts.first_counts, "how many begin with each of first_tokens");
}

void check_stored(const Stored& stored, const std::string& file) {
  const auto& splits = stored.facts.splits;
  const auto fail = [&](const std::string& what) {
    throw UserError(Place{file, 0}, what, "the file is not as `longbow train` wrote it");
  };
  const auto target = splits.second_vocabulary > 0 ? splits.second_vocabulary : splits.vocabulary;
  if (splits.vocabulary == 0) fail("vocabulary is 0");
  if (std::ssize(splits.symbols) > splits.vocabulary)
    fail(fmt::format("{} symbols for {} ids", splits.symbols.size(), splits.vocabulary));
  if (std::ssize(splits.second_symbols) > target)
    fail(fmt::format("{} second_symbols for {} ids", splits.second_symbols.size(), target));
  if (!splits.labels.empty() && std::ssize(splits.labels) != splits.classes)
    fail(fmt::format("{} labels for {} classes", splits.labels.size(), splits.classes));
  // What begins a text may be an id that no text holds.
  if (splits.begin > target || splits.end > target) fail("begin or end is not an id");
  if (splits.unknown >= splits.vocabulary) fail("unknown is not an id");
  if (std::max(splits.frame.first, splits.frame.last) >= splits.vocabulary)
    fail("frame_first or frame_last is not an id");
  if ((splits.image.height > 0) != (splits.image.width > 0)) fail("an image has two sides");
  const auto& [all, tokens, counts] = stored.facts;
  const auto is_id = [&](int64_t id) { return id > 0 && id < splits.vocabulary; };
  const auto counted = [](int64_t count) { return count > 0 && count <= kBeginnings; };
  if (tokens.size() != counts.size() || !std::all_of(tokens.begin(), tokens.end(), is_id) ||
      !std::all_of(counts.begin(), counts.end(), counted))
    fail("first_tokens and first_counts do not fit together");
}

}  // namespace

DataFacts facts_of(const Splits& splits) {
  std::map<int64_t, int64_t> counts;
  for (int64_t i = 0; i < std::min(splits.train->size(), kBeginnings); ++i)
    if (const auto tokens = splits.train->get(i).tokens; !tokens.empty()) ++counts[tokens[0]];
  DataFacts facts = {.splits = splits};
  for (const auto& [token, count] : counts) {
    facts.first_tokens.push_back(token);
    facts.first_counts.push_back(count);
  }
  leave_out_samples(facts.splits, kind_of(*splits.train));
  return facts;
}

std::string to_json(const DataFacts& facts) {
  const Stored stored = {.facts = facts, .kind = kind_of(*facts.splits.train)};
  return to_json(written(stored), 2) + "\n";
}

DataFacts parse_facts(const std::string& text, const std::string& file) {
  auto stored = read<Stored>(parse_json(text, file));
  check_stored(stored, file);
  stored.kind.per_token = stored.facts.splits.per_token;
  leave_out_samples(stored.facts.splits, stored.kind);
  return stored.facts;
}

}  // namespace longbow
