#pragma once
// Key-value recall: pairs are shown, a separator follows, then keys are asked for and each must be
// answered with the value it was shown with. The shortest test of whether a mechanism can look
// something up.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "longbow/core/fields.h"
#include "longbow/data/samples/dataset.h"

namespace longbow {

struct RecallConfig {
  int64_t train = 20000, valid = 2000, test = 2000;
  int64_t keys = 32, values = 16;
  int64_t pairs = 16, pairs_min = 0;
  int64_t queries = 16;
  bool joint = false;
};
template <class V>
void fields(V& v, RecallConfig& c) {
  v("train", c.train, "training samples", range(1, 1e8));
  v("valid", c.valid, "validation samples", range(1, 1e8));
  v("test", c.test, "test samples", range(1, 1e8));
  v("keys", c.keys, "different keys", range(1, 60000));
  v("values", c.values, "different values, the classes", range(1, 60000));
  v("pairs", c.pairs, "pairs shown, each key at most once", range(1, 60000));
  v("pairs_min", c.pairs_min, "fewest pairs shown, their number then varies; 0 = always `pairs`",
    range(0, 60000));
  v("queries", c.queries, "keys asked for", range(1, 60000));
  v("joint", c.joint, "a pair is one token instead of two, so that one layer can solve the task");
}

inline constexpr int64_t kRecallVersion = 1;

// Token ids: padding 0; keys; values, or with `joint` pairs key·values + value; the separator.
struct RecallIds {
  explicit RecallIds(const RecallConfig& config);
  int64_t key(int64_t k) const { return 1 + k; }
  int64_t value(int64_t v) const { return 1 + keys + v; }
  int64_t pair(int64_t k, int64_t v) const { return 1 + keys + k * values + v; }
  int64_t separator() const { return 1 + keys + (joint ? keys * values : values); }
  int64_t vocabulary() const { return separator() + 1; }
  std::vector<std::string> symbols() const;
  int64_t keys, values;
  bool joint;
};

Splits make_recall(const RecallConfig& config, uint64_t seed);
void write_recall(const std::string& dir, const RecallConfig& config, uint64_t seed);
// `recall_{train,val,test}.tsv`: ids of the sample, ids' classes of the answers. Needs
// manifest.json, which says what the ids mean; recomputes every answer.
Splits load_recall(const std::string& dir);

// The targets that follow from the tokens; tokens that are no recall sample are a UserError at
// `place`.
std::vector<int32_t> recall_targets(std::span<const int32_t> tokens, const RecallIds& ids,
                                    const Place& place);

}  // namespace longbow
