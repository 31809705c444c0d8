#include "longbow/models/decoder/decoding.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/models/languages.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using Words = std::vector<int64_t>;
struct Text {
  Words words;
  double sum = 0;
};

std::vector<double> log_probabilities(int64_t lane, const Words& words, int64_t min_length) {
  int64_t row = following(lane * 13, kBegin);
  for (const auto word : words) row = following(row, word);
  std::vector<double> logits(kWords);
  double normaliser = 0;
  for (int64_t w = 0; w < kWords; ++w) {
    const bool banned = w == kEnd && static_cast<int64_t>(words.size()) < min_length;
    logits[static_cast<size_t>(w)] = banned ? -1e300 : table()[row][w].item<double>();
    normaliser += std::exp(logits[static_cast<size_t>(w)]);
  }
  for (auto& logit : logits) logit -= std::log(normaliser);
  return logits;
}

double penalised(const Text& text, const DecodingConfig& config, int64_t length = 0) {
  const auto n = static_cast<double>(length > 0 ? length : std::ssize(text.words));
  const double base = config.penalty == LengthPenalty::gnmt ? (5 + n) / 6 : n;
  return text.sum / std::pow(base, config.length_penalty);
}

void sort_best_first(std::vector<Text>& texts, const DecodingConfig& config) {
  std::stable_sort(texts.begin(), texts.end(), [&](const Text& a, const Text& b) {
    return penalised(a, config) > penalised(b, config);
  });
}

std::vector<Text> continued(int64_t lane, const Text& text, int64_t min_length) {
  std::vector<Text> all;
  const auto gained = log_probabilities(lane, text.words, min_length);
  for (int64_t w = 0; w < kWords; ++w) {
    if (gained[static_cast<size_t>(w)] < -1e200) continue;
    all.push_back({text.words, text.sum + gained[static_cast<size_t>(w)]});
    all.back().words.push_back(w);
  }
  return all;
}

bool ended(const Text& text) {
  return !text.words.empty() && text.words.back() == kEnd;
}

// Every text that ends or is as long as it may be.
void enumerate(int64_t lane, const Text& text, const DecodingConfig& config,
               std::vector<Text>& found) {
  for (const auto& next : continued(lane, text, config.min_length))
    if (ended(next) || std::ssize(next.words) == config.max_length)
      found.push_back(next);
    else
      enumerate(lane, next, config, found);
}

// Beam search that reads every prefix from its beginning, one text at a time.
std::vector<Text> searched(int64_t lane, const DecodingConfig& config) {
  const auto beams = static_cast<size_t>(config.beams);
  std::vector<Text> live = {{}}, finished;
  bool over = false;
  for (int64_t step = 0; step < config.max_length && !over; ++step) {
    std::vector<Text> all;
    for (const auto& text : live)
      for (const auto& next : continued(lane, text, config.min_length)) all.push_back(next);
    std::stable_sort(all.begin(), all.end(),
                     [](const Text& a, const Text& b) { return a.sum > b.sum; });
    all.resize(std::min(all.size(), 2 * beams));
    live.clear();
    for (size_t i = 0; i < all.size(); ++i) {
      if (ended(all[i]) && i < beams) finished.push_back(all[i]);
      if (!ended(all[i]) && live.size() < beams) live.push_back(all[i]);
    }
    sort_best_first(finished, config);
    finished.resize(std::min(finished.size(), beams));
    over = finished.size() == beams &&
           (config.early_stopping || penalised(finished.back(), config) >=
                                         penalised(live.front(), config, config.max_length));
  }
  if (!over) finished.insert(finished.end(), live.begin(), live.end());
  sort_best_first(finished, config);
  finished.resize(std::min(finished.size(), static_cast<size_t>(config.n_best)));
  return finished;
}

Words words_of(const Decoded& decoded, int64_t lane, int64_t which) {
  const auto row = decoded.tokens[lane][which].contiguous();
  const auto length = decoded.lengths[lane][which].item<int64_t>();
  const auto* data = row.const_data_ptr<int64_t>();
  for (int64_t i = length; i < row.size(0); ++i) EXPECT_EQ(data[i], 0) << "behind the end";
  return {data, data + length};
}

void expect_texts(const Decoded& got, int64_t lane, const std::vector<Text>& want,
                  const DecodingConfig& config) {
  for (size_t i = 0; i < want.size(); ++i) {
    const auto which = static_cast<int64_t>(i);
    EXPECT_EQ(words_of(got, lane, which), want[i].words) << "text " << i << " of lane " << lane;
    EXPECT_NEAR(got.scores[lane][which].item<double>(), penalised(want[i], config), 1e-9);
  }
}

Decoded decoded(const DecodingConfig& config, int64_t lanes = 6, int64_t first = 0,
                const Random& random = {}) {
  return decode(language(lanes, first), Prompt::begin(lanes, kBegin, at::kCPU), kEnd, config,
                random);
}

DecodingConfig beam(int64_t beams, int64_t n_best, int64_t max_length) {
  return {
      .method = DecodingMethod::beam, .max_length = max_length, .n_best = n_best, .beams = beams};
}

TEST(Decoding, GreedilyTakesTheMostProbableTokenUntilTheEnd) {
  const DecodingConfig config = {.max_length = 9};
  const auto got = decoded(config, 8);
  std::vector<size_t> lengths;
  for (int64_t lane = 0; lane < 8; ++lane) {
    Text text;
    while (!ended(text) && std::ssize(text.words) < 9) {
      const auto all = continued(lane, text, 0);
      text = *std::max_element(all.begin(), all.end(),
                               [](const Text& a, const Text& b) { return a.sum < b.sum; });
    }
    expect_texts(got, lane, {text}, config);
    lengths.push_back(text.words.size());
  }
  EXPECT_LT(*std::min_element(lengths.begin(), lengths.end()), 4) << "some lanes end early";
  EXPECT_GT(*std::max_element(lengths.begin(), lengths.end()), 6) << "and others late";
}

TEST(Decoding, WritesOnlyWhatMayBeWritten) {
  const auto model = without(language(8), {0, 3});
  for (const auto method : {DecodingMethod::greedy, DecodingMethod::beam, DecodingMethod::sample}) {
    const DecodingConfig config = {.method = method, .max_length = 9};
    const auto got =
        decode(model, Prompt::begin(8, kBegin, at::kCPU), kEnd, config, Random::from_seed(3));
    for (int64_t lane = 0; lane < 8; ++lane) {
      Words before;
      double sum = 0;
      for (const auto word : words_of(got, lane, 0)) {
        EXPECT_TRUE(word != 0 && word != 3);
        const auto all = log_probabilities(lane, before, 0);
        const auto left = 1 - std::exp(all[0]) - std::exp(all[3]);
        sum += all[static_cast<size_t>(word)] - std::log(left);
        if (method == DecodingMethod::greedy)
          for (const size_t other : {1, 2, 4})
            EXPECT_GE(all[static_cast<size_t>(word)], all[other]);
        before.push_back(word);
      }
      EXPECT_NEAR(got.scores[lane][0].item<double>(), sum, 1e-9);
    }
  }
}

TEST(Decoding, BeamOneIsGreedy) {
  for (const auto penalty : {LengthPenalty::gnmt, LengthPenalty::plain})
    for (const double alpha : {0.0, 0.6, 1.0}) {
      DecodingConfig config = beam(1, 1, 9);
      config.penalty = penalty;
      config.length_penalty = alpha;
      const auto wide = decoded(config, 20);
      config.method = DecodingMethod::greedy;
      const auto narrow = decoded(config, 20);
      EXPECT_NEAR_TENSOR(wide.tokens, narrow.tokens, kExact);
      EXPECT_NEAR_TENSOR(wide.lengths, narrow.lengths, kExact);
      EXPECT_NEAR_TENSOR(wide.scores, narrow.scores, kExact);
    }
}

TEST(Decoding, BeamSearchEqualsASearchOverWholePrefixes) {
  for (const auto penalty : {LengthPenalty::gnmt, LengthPenalty::plain})
    for (const double alpha : {0.0, 0.6, 1.5})
      for (const bool early : {true, false})
        for (const int64_t beams : {2, 3, 7}) {
          auto config = beam(beams, 2, 8);
          config.penalty = penalty;
          config.length_penalty = alpha;
          config.early_stopping = early;
          config.min_length = beams == 3 ? 2 : 0;
          const auto got = decoded(config);
          for (int64_t lane = 0; lane < 6; ++lane)
            expect_texts(got, lane, searched(lane, config), config);
        }
}

TEST(Decoding, AWideBeamFindsWhatExhaustiveSearchFinds) {
  for (const int64_t min_length : {0, 2})
    for (const double alpha : {0.0, 1.0}) {
      auto config = beam(400, 5, 4);
      config.length_penalty = alpha;
      config.penalty = LengthPenalty::plain;
      config.min_length = min_length;
      config.early_stopping = false;
      const auto got = decoded(config, 3);
      for (int64_t lane = 0; lane < 3; ++lane) {
        std::vector<Text> all;
        enumerate(lane, {}, config, all);
        sort_best_first(all, config);
        all.resize(5);
        expect_texts(got, lane, all, config);
      }
    }
}

TEST(Decoding, ABeamFindsMoreThanGreedy) {
  const auto greedy = decoded({.max_length = 9}, 20), wide = decoded(beam(6, 1, 9), 20);
  EXPECT_TRUE((wide.scores >= greedy.scores - 1e-9).all().item<bool>());
  EXPECT_GT((wide.scores > greedy.scores + 1e-6).sum().item<int64_t>(), 3);
}

TEST(Decoding, TextsThatEndedDoNotDisturbOthers) {
  for (const auto method : {DecodingMethod::greedy, DecodingMethod::beam}) {
    auto config = beam(3, 1, 9);
    config.method = method;
    const auto together = decoded(config, 8);
    for (int64_t lane = 0; lane < 8; ++lane) {
      const auto alone = decoded(config, 1, lane);
      EXPECT_NEAR_TENSOR(together.tokens[lane], alone.tokens[0], kExact);
      EXPECT_NEAR_TENSOR(together.scores[lane], alone.scores[0], (Tolerance{1e-12, 0}));
    }
  }
}

TEST(Decoding, NoTextEndsBeforeTheFewestTokensOrGoesOnBeyondTheMost) {
  for (const auto method : {DecodingMethod::greedy, DecodingMethod::beam, DecodingMethod::sample}) {
    auto config = beam(3, 1, 6);
    config.method = method;
    config.min_length = 4;
    const auto got = decoded(config, 40, 0, Random::from_seed(3));
    EXPECT_EQ(got.tokens.sizes(), (std::vector<int64_t>{40, 1, 6}));
    EXPECT_FALSE((got.tokens.narrow(2, 0, 4) == kEnd).any().item<bool>());
    EXPECT_TRUE((got.tokens.select(2, 4) == kEnd).any().item<bool>());
    EXPECT_LE(got.lengths.max().item<int64_t>(), 6);
  }
}

TEST(Decoding, PromptsMayDifferInLength) {
  const auto tokens = at::tensor({1, 3, 4, 1, 4, 0}, at::kLong).view({2, 3});
  const auto keep = at::tensor({1, 1, 1, 1, 1, 0}, at::kLong).to(at::kBool).view({2, 3});
  const DecodingConfig config = {.max_length = 7};
  const auto got = decode(language(2), {tokens, keep}, kEnd, config);
  for (int64_t lane = 0; lane < 2; ++lane) {
    const Prompt own = {tokens.narrow(0, lane, 1).narrow(1, 0, 3 - lane)};
    const auto alone = decode(language(1, lane), own, kEnd, config);
    EXPECT_NEAR_TENSOR(got.tokens[lane], alone.tokens[0], kExact);
  }
}

TEST(Decoding, WithoutAnEndEveryTextIsAsLongAsItMayBe) {
  const auto got = decode(language(3), Prompt::begin(3, kBegin, at::kCPU), -1, {.max_length = 12});
  EXPECT_NEAR_TENSOR(got.lengths, at::full({3, 1}, 12, at::kLong), kExact);
}

TEST(Decoding, FewerTextsThanWantedAreMarked) {
  auto config = beam(30, 30, 1);
  const auto got = decoded(config, 1);
  EXPECT_EQ(got.lengths[0].sum().item<int64_t>(), kWords);
  EXPECT_TRUE(got.scores[0].narrow(0, kWords, 30 - kWords).isneginf().all().item<bool>());
}

TEST(Decoding, ACausalLanguageModelIsContinuedThroughItsState) {
  const auto tokens = at::tensor({1, 3, 4, 1, 4, 0}, at::kLong).view({2, 3});
  const auto keep = at::tensor({1, 1, 1, 1, 1, 0}, at::kLong).to(at::kBool).view({2, 3});
  for (const auto* attention : {"softmax", "linear", "{name: local, window: 2}"}) {
    const auto model = std::make_shared<TinyLanguageModel>(attention);
    const auto head = [=](const Tensor& x) { return model->head(x); };
    for (const auto method : {DecodingMethod::greedy, DecodingMethod::beam}) {
      auto config = beam(3, 1, 8);
      config.method = method;
      const auto got = decode(continuation_of(model, head, 2, 20), {tokens, keep}, kEnd, config);
      for (int64_t lane = 0; lane < 2; ++lane) {
        // Without a state: the tokens are kept, and read from the first one on each time.
        const Continuation again = {
            .lanes = 1,
            .longest = 20,
            .start =
                [](int64_t) {
                  State state;
                  state.lane["tokens"] = at::zeros({1, 0}, at::kLong);
                  return state;
                },
            .next =
                [=](const Tensor& next, const Tensor&, State& state) {
                  auto& all = state.lane.at("tokens");
                  all = at::cat({all, next}, 1);
                  Context context = {.mask = {.causal = true}};
                  return head(
                      (*model->layers)(at::embedding(model->words, all), context).select(1, -1));
                }};
        const Prompt own = {tokens.narrow(0, lane, 1).narrow(1, 0, 3 - lane)};
        const auto want = decode(again, own, kEnd, config);
        EXPECT_NEAR_TENSOR(got.tokens[lane], want.tokens[0], kExact) << attention;
        EXPECT_NEAR_TENSOR(got.scores[lane], want.scores[0], (Tolerance{1e-9, 0})) << attention;
      }
    }
  }
}

Tensor logits_of(const std::vector<double>& probabilities) {
  return at::tensor(probabilities, at::kDouble).log().unsqueeze(0);
}
Tensor row(const std::vector<double>& values) {
  return at::tensor(values, at::kDouble).unsqueeze(0);
}

TEST(Sampling, TemperatureTopKAndTopPShapeTheDistribution) {
  const auto logits = logits_of({0.1, 0.4, 0.2, 0.25, 0.05});
  const Tolerance close = {1e-12, 0};
  EXPECT_NEAR_TENSOR(sampling_distribution(logits, {}), row({0.1, 0.4, 0.2, 0.25, 0.05}), close);
  const double half = 0.01 + 0.16 + 0.04 + 0.0625 + 0.0025;
  EXPECT_NEAR_TENSOR(sampling_distribution(logits, {.temperature = 0.5}),
                     row({0.01 / half, 0.16 / half, 0.04 / half, 0.0625 / half, 0.0025 / half}),
                     close);
  EXPECT_NEAR_TENSOR(sampling_distribution(logits, {.top_k = 2}),
                     row({0, 0.4 / 0.65, 0, 0.25 / 0.65, 0}), close);
  EXPECT_NEAR_TENSOR(sampling_distribution(logits, {.top_p = 0.66}),
                     row({0, 0.4 / 0.85, 0.2 / 0.85, 0.25 / 0.85, 0}), close);
  EXPECT_NEAR_TENSOR(sampling_distribution(logits, {.top_p = 0.64}),
                     row({0, 0.4 / 0.65, 0, 0.25 / 0.65, 0}), close);
  EXPECT_NEAR_TENSOR(sampling_distribution(logits, {.top_p = 1e-6}), row({0, 1, 0, 0, 0}), close);
  EXPECT_NEAR_TENSOR(sampling_distribution(logits, {.top_p = 0.9, .top_k = 1}),
                     row({0, 1, 0, 0, 0}), close);
}

// A language of one step: the same logits for everybody.
Continuation constant(const Tensor& logits, int64_t lanes) {
  return {.lanes = lanes,
          .longest = 0,
          .start = [](int64_t) { return State(); },
          .next =
              [=](const Tensor& tokens, const Tensor&, State&) {
                return logits.expand({tokens.size(0), -1});
              }};
}

TEST(Sampling, DrawsAsOftenAsTheDistributionSays) {
  constexpr int64_t kDraws = 20000;
  const auto logits = logits_of({0.1, 0.4, 0.2, 0.25, 0.05});
  for (const auto& [top_k, top_p] : {std::pair<int64_t, double>{0, 1}, {3, 1}, {0, 0.6}}) {
    const DecodingConfig config = {.method = DecodingMethod::sample,
                                   .max_length = 1,
                                   .temperature = 0.8,
                                   .top_p = top_p,
                                   .top_k = top_k};
    const auto got = decode(constant(logits, kDraws), Prompt::begin(kDraws, kBegin, at::kCPU), -1,
                            config, Random::from_seed(5));
    const auto want = sampling_distribution(logits, config)[0];
    for (int64_t w = 0; w < 5; ++w) {
      const auto share = (got.tokens == w).sum().item<double>() / kDraws;
      const auto p = want[w].item<double>();
      EXPECT_NEAR(share, p, 4 * std::sqrt(p * (1 - p) / kDraws)) << w;
    }
  }
}

TEST(Sampling, AtATemperatureOfNothingIsGreedy) {
  const DecodingConfig config = {
      .method = DecodingMethod::sample, .max_length = 9, .temperature = 1e-6};
  const auto cold = decoded(config, 20, 0, Random::from_seed(1));
  EXPECT_NEAR_TENSOR(cold.tokens, decoded({.max_length = 9}, 20).tokens, kExact);
}

TEST(Sampling, IsAFunctionOfItsSeedAndGivesSeveralTexts) {
  const DecodingConfig config = {.method = DecodingMethod::sample, .max_length = 9, .n_best = 3};
  const auto a = decoded(config, 6, 0, Random::from_seed(1)),
             b = decoded(config, 6, 0, Random::from_seed(1)),
             c = decoded(config, 6, 0, Random::from_seed(2));
  EXPECT_EQ(a.tokens.sizes(), (std::vector<int64_t>{6, 3, 9}));
  EXPECT_NEAR_TENSOR(a.tokens, b.tokens, kExact);
  EXPECT_FALSE(at::equal(a.tokens, c.tokens));
  EXPECT_FALSE(at::equal(a.tokens.select(1, 0), a.tokens.select(1, 1)));
  EXPECT_TRUE((a.scores.select(1, 0) >= a.scores.select(1, 1)).all().item<bool>());
  for (int64_t lane = 0; lane < 6; ++lane)
    for (int64_t which = 0; which < 3; ++which) {
      Text text;
      for (const auto word : words_of(a, lane, which))
        for (const auto& next : continued(lane, text, 0))
          if (next.words.back() == word) {
            text = next;
            break;
          }
      EXPECT_NEAR(a.scores[lane][which].item<double>(), text.sum, 1e-9);
    }
}

TEST(Decoding, RefusesWhatContradictsItself) {
  const auto error = [](const std::string& text) {
    return error_of([&] {
      const auto tree = parse_yaml(text, "d.yaml");
      check_decoding(read<DecodingConfig>(tree), tree);
    });
  };
  EXPECT_EQ(error("{max_length: 4,\nmin_length: 4}"),
            "d.yaml:2: min_length 4 leaves no room for the end; max_length is 4");
  EXPECT_EQ(error("n_best: 2"),
            "d.yaml:1: greedy decoding finds one text, not 2; set method to beam or sample");
  EXPECT_EQ(error("{method: beam, beams: 2, n_best: 3}"),
            "d.yaml:1: n_best 3 is more than the beams, 2; raise beams");
  EXPECT_EQ(error("{method: beam, beams: 3, n_best: 3, min_length: 2}"), "");
}

TEST(Decoding, SaysWhenThereIsNoRoom) {
  const auto error = [](int64_t longest, int64_t max_length) {
    const auto text = error_of([&] {
      decode(language(1, 0, longest), Prompt::begin(1, kBegin, at::kCPU), kEnd,
             {.max_length = max_length});
    });
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(error(0, 0), "decode: max_length is 0, but the model has no limit either");
  EXPECT_EQ(error(5, 6), "decode: 6 tokens after a prompt of 1, but the model holds 5");
  EXPECT_EQ(error(5, 5), "");
  EXPECT_EQ(error(5, 0), "");
}

}  // namespace
}  // namespace longbow
