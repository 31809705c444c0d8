#include "longbow/data/sets/listops.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <optional>
#include <string_view>
#include <thread>
#include <unordered_set>

#include "longbow/core/log.h"
#include "longbow/core/seed.h"
#include "longbow/core/work.h"
#include "longbow/data/readers/source.h"

namespace longbow {
namespace {

using namespace listops;

constexpr double kOperatorShare = 0.25;
constexpr int64_t kChunk = 4096;  // root draws per task

// One root draw, given up as soon as it is too long.
class Draw {
 public:
  Draw(const ListOpsConfig& config, Stream stream) : config_(config), stream_(stream) {}

  std::optional<Expression> expression() {
    if (!tree(1) || length() <= config_.min_length) return std::nullopt;
    return std::move(result_);
  }

 private:
  bool tree(int64_t depth) {
    auto chance = depth < config_.max_depth ? stream_.uniform() : 1;
    if (chance > kOperatorShare) return push(kZero + stream_.below(10));
    auto count = 2 + stream_.below(config_.max_args - 1);
    auto place = result_.symbols.size();
    if (!push(kMin)) return false;
    for (int64_t i = 0; i < count; ++i)
      if (!tree(depth + 1)) return false;
    result_.symbols[place] = static_cast<uint8_t>(kMin + stream_.below(4));
    return push(kClose);
  }

  bool push(int64_t symbol) {
    result_.symbols.push_back(static_cast<uint8_t>(symbol));
    return length() < config_.max_length;
  }
  int64_t length() const { return static_cast<int64_t>(result_.symbols.size()); }

  const ListOpsConfig& config_;
  Stream stream_;
  Expression result_;
};

struct Accepted {
  Expression expression;
  int64_t draw;
};

std::vector<Accepted> accept(const ListOpsConfig& config, const Stream& stream, int64_t first) {
  std::vector<Accepted> accepted;
  for (auto draw = first; draw < first + kChunk; ++draw)
    if (auto expression = Draw(config, stream.at(static_cast<uint64_t>(draw))).expression())
      accepted.push_back({std::move(*expression), draw});
  return accepted;
}

std::string_view bytes(const Expression& expression) {
  return {reinterpret_cast<const char*>(expression.symbols.data()), expression.symbols.size()};
}

void check(const ListOpsConfig& config) {
  require_option(config.max_length - config.min_length >= 2, "max_length",
                 fmt::format("is {} and min_length is {}: no length lies between them",
                             config.max_length, config.min_length),
                 "both ends are excluded");
}

std::shared_ptr<const MemoryDataset> dataset_of(std::span<const Expression> expressions) {
  auto dataset = std::make_shared<MemoryDataset>(MemoryDataset::Targets::one_class);
  for (const auto& expression : expressions)
    dataset->add(expression.symbols, std::vector<int32_t>{expression.value()});
  return dataset;
}

}  // namespace

GeneratedListOps generate_listops(const ListOpsConfig& config, int64_t count, uint64_t seed,
                                  int threads) {
  check(config);
  const int64_t most_draws = 1'000'000 + 1000 * count;
  const int64_t tasks = threads > 0 ? threads : std::max(1U, std::thread::hardware_concurrency());
  const Stream stream(seed, "listops");
  GeneratedListOps generated;
  std::unordered_set<std::string_view> seen;  // into the expressions, whose bytes never move
  Work work("making listops", count);
  for (int64_t first = 0; first < most_draws; first += tasks * kChunk) {
    work.reached(std::ssize(generated.expressions));
    std::vector<std::future<std::vector<Accepted>>> chunks;
    for (int64_t task = 0; task < tasks; ++task)
      chunks.push_back(std::async(std::launch::async, accept, std::cref(config), std::cref(stream),
                                  first + task * kChunk));
    for (auto& chunk : chunks)
      for (auto& [expression, draw] : chunk.get()) {
        if (std::ssize(generated.expressions) == count) break;
        if (!seen.insert(bytes(expression)).second) continue;
        generated.expressions.push_back(std::move(expression));
        generated.draws = draw + 1;
      }
    if (std::ssize(generated.expressions) == count) return generated;
  }
  throw UserError(fmt::format("listops: {} of {} different expressions found in {} draws",
                              generated.expressions.size(), count, most_draws),
                  "widen min_length and max_length, or raise max_depth or max_args");
}

Splits make_listops(const ListOpsConfig& config, uint64_t seed) {
  auto generated = generate_listops(config, config.test + config.valid + config.train, seed);
  auto rest = std::span<const Expression>(generated.expressions);
  auto take = [&](int64_t count) {
    auto taken = rest.first(static_cast<size_t>(count));
    rest = rest.subspan(static_cast<size_t>(count));
    return dataset_of(taken);
  };
  auto test = take(config.test), valid = take(config.valid), train = take(config.train);
  Splits splits{.vocabulary = kVocabulary,
                .classes = kClasses,
                .symbols = listops::symbols(),
                .labels = listops::labels()};
  set_splits(splits, std::move(train), std::move(valid), std::move(test));
  return splits;
}

int root_operator(const Sample& sample) {
  auto root = sample.tokens.empty() ? 0 : sample.tokens.front();
  return root >= kMin && root <= kSum ? root - kMin : -1;
}

DataSource listops_data_set() {
  const auto baselines = [](const DataConfig&, const Splits& splits) {
    std::vector<Baseline> rows = {{"root operator only",
                                   "the most frequent class given the outermost operator",
                                   "accuracy", true, majority_accuracy(splits, root_operator)}};
    for (const int64_t depth : {1, 2, 3, 4})
      rows.push_back(
          {fmt::format("operators to depth {}", depth),
           fmt::format("the value with deeper operators left out{}",
                       depth == 1 ? ": the digits beside the root" : ""),
           "accuracy", true,
           answer_accuracy(
               splits,
               [depth](const Sample& sample) { return value_to_depth(sample.tokens, depth); },
               root_operator)});
    return rows;
  };
  return data_source<ListOpsConfig>(
      {.name = "listops",
       .description = "Long Range Arena ListOps: the value of a nested list expression, 10 classes",
       .objective = "classification",
       .files = {"basic_train.tsv", "basic_val.tsv", "basic_test.tsv"},
       .recipe = {"{task: listops, data: {listops: {train: 8000, valid: 500, test: 1000, "
                  "min_length: 20, max_length: 100, max_depth: 5}}}",
                  "38 % accuracy; the outermost operator alone tells 34 %"},
       .baselines = baselines},
      [](const DataConfig& config, const ListOpsConfig& options) {
        auto splits = config.path.empty()
                          ? truncate(make_listops(options, config.seed), config.max_tokens)
                          : load_listops(config.path, config.max_tokens);
        if (splits.truncated > 0)
          info(fmt::format("listops: {} of {} samples cut to {} tokens", splits.truncated,
                           splits.train->size() + splits.valid->size() + splits.test->size(),
                           config.max_tokens));
        return splits;
      },
      write_listops, check);
}

}  // namespace longbow
