#pragma once
// ListOps of the Long Range Arena: generated, or read from `basic_{train,val,test}.tsv`.
#include <cstdint>
#include <string>
#include <vector>

#include "longbow/core/fields.h"
#include "longbow/data/samples/dataset.h"
#include "longbow/data/sets/listops/expression.h"

namespace longbow {

struct ListOpsConfig {
  int64_t train = 96000, valid = 2000, test = 2000;
  int64_t min_length = 500, max_length = 2000;
  int64_t max_depth = 10, max_args = 10;
};
template <class V>
void fields(V& v, ListOpsConfig& c) {
  v("train", c.train, "training samples", range(1, 1e8));
  v("valid", c.valid, "validation samples", range(1, 1e8));
  v("test", c.test, "test samples", range(1, 1e8));
  v("min_length", c.min_length, "every sample is longer than this, in tokens", range(0, 1e6));
  v("max_length", c.max_length, "every sample is shorter than this, in tokens", range(2, 1e6));
  v("max_depth", c.max_depth, "deepest level; it holds digits only", range(1, 100));
  v("max_args", c.max_args, "most arguments of an operator", range(2, 100));
}

inline constexpr int64_t kListOpsVersion =
    1;  // of the generator: same seed and version, same samples

struct GeneratedListOps {
  std::vector<Expression> expressions;  // all different, in the order drawn
  int64_t draws = 0;                    // how many root draws that took
};
// Draw i is a function of (seed, i), so the number of threads (0: one per core) does not change the
// result.
GeneratedListOps generate_listops(const ListOpsConfig& config, int64_t count, uint64_t seed,
                                  int threads = 0);

// Test samples come first, then validation, then training: a smaller training set keeps the other
// two.
Splits make_listops(const ListOpsConfig& config, uint64_t seed);
void write_listops(const std::string& dir, const ListOpsConfig& config, uint64_t seed);
// Recomputes every label. max_tokens > 0 cuts longer samples on the right, as the official pipeline
// does.
Splits load_listops(const std::string& dir, int64_t max_tokens = 0);

struct LabelledExpression {
  Expression expression;
  int label = 0;
};
// Checked rows of `Source<TAB>Target` contents.
std::vector<LabelledExpression> parse_listops(const std::string& contents, const std::string& path);

// 0 … 3 for MIN, MAX, MED, SM; -1 when the sample is a single digit. Knowing only this scores 36 %.
int root_operator(const Sample& sample);

}  // namespace longbow
