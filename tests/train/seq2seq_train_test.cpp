// Encoder-decoders learn to reverse sources of different length. The decoder has no positions: it
// must count its own tokens, and the encoder tells each symbol how far from the end it stands.
#include <ATen/ATen.h>

#include <cmath>

#include "longbow/data/sets/reverse.h"
#include "longbow/tasks/objectives/translation.h"
#include "tests/support/tensor.h"
#include "tests/train/lesson.h"
#include "tests/train/runs.h"

namespace longbow {
namespace {

// Symbols are drawn independently: one who does not read the source takes any, at the least where
// the target has not ended.
Outlook any_symbol(const RunConfig& config, const Splits& splits, const nlohmann::json&) {
  double symbols = 0, all = 0;
  for (int64_t i = 0; i < splits.test->size(); ++i) {
    symbols += static_cast<double>(splits.test->get(i).tokens.size());
    all += static_cast<double>(splits.test->get(i).second.size());
  }
  const auto different = read<ReverseConfig>(config.data.options).symbols;
  return {.blind = symbols / all * std::log(static_cast<double>(different))};
}

const Lesson kReversal = {
    .name = "translation",
    .task = "reverse",
    .data = "{train: 2000, valid: 64, test: 64, symbols: 5, length: 6, length_min: 3}",
    .model =
        "{encoder: {width: 32, layers: 1, init: xavier}, decoder: {width: 32, layers: 1, "
        "init: xavier, positions: none}, exact_match: true}",
    .train = "{max_steps: 300, batch_size: 32, bucket: 7, learning_rate: 0.01}",
    .loss = 0.1,
    .outlook = any_symbol,
    .window = 3,
    .places = {"encoder.attention", "decoder.attention"},
    .cross_places = {"decoder.cross_attention"}};

struct TranslationTrain : LessonTest {};

TEST_P(TranslationTrain, ReachesTheStatedLossAndDecodes) {
  const auto& [lesson, means] = GetParam();
  const auto test = expect_learnt(lesson, means);
  if (means.mixes) EXPECT_GT(test.at("exact_match").get<double>(), 0.8) << "chance is 5^-4 or so";
}

INSTANTIATE_TEST_SUITE_P(Lessons, TranslationTrain,
                         testing::ValuesIn(by_every_mechanism({kReversal})), test_name);

TEST(Translation, AFinishedRunIsOpenedAndTranslates) {
  auto config = config_of(kReversal, {"softmax"});
  config.train.max_steps = 20;
  const auto folder = scratch();
  run(config, folder);
  const auto opened = open_run(folder, at::kCPU);
  opened.task->model().eval();
  const auto batch = collate(*opened.task->splits().test, {.indices = {0, 1}, .padded_length = 7});
  const auto got = translate(*opened.task, batch);
  EXPECT_EQ(got.tokens.sizes(), (std::vector<int64_t>{2, 1, 7}));
  const auto beams = translate(*opened.task, batch, {.method = DecodingMethod::beam, .beams = 1});
  EXPECT_NEAR_TENSOR(beams.tokens, got.tokens, kExact);
}

}  // namespace
}  // namespace longbow
