#include "longbow/metrics/significance.h"

#include "longbow/metrics/bleu.h"
#include "longbow/metrics/chrf.h"
#include "tests/metrics/vectors.h"

namespace longbow::metrics {
namespace {

using nlohmann::json;
using Lines = std::vector<std::string>;
using Streams = std::vector<Lines>;

// sacreBLEU resamples in float32: means and intervals agree to its precision.
constexpr double kSingle = 2e-6;

template <class Statistics, class Score>
void expect_same(const json& given, const json& wanted,
                 const std::vector<std::vector<Statistics>>& systems, const Score& score) {
  const Trials trials = {given.at("samples").get<size_t>(), given.at("seed").get<uint64_t>()};
  const bool bootstrap = given.at("test") == "bs";
  const std::span<const Statistics> base = systems[0];
  for (size_t i = 0; i < systems.size(); ++i) {
    const std::span<const Statistics> system = systems[i];
    expect_close(score(sum_of(system)), wanted[i].at("score"));
    if (bootstrap) {
      const auto interval = confidence_interval(bootstrap_scores(system, score, trials));
      expect_close(interval.mean, wanted[i].at("mean"), kSingle);
      expect_close(interval.half_width, wanted[i].at("ci"), kSingle);
    }
    if (i == 0) continue;
    expect_close(bootstrap ? paired_bootstrap(base, system, score, trials)
                           : paired_randomization(base, system, score, trials),
                 wanted[i].at("p_value"));
  }
}

TEST(Significance, IsThatOfSacreBleu) {
  const auto all = vectors("sacrebleu.json");
  const auto& data = all.at("paired_data");
  const Streams references = {data.at("references").get<Lines>()};
  std::vector<std::vector<BleuStatistics>> bleu;
  std::vector<std::vector<ChrfStatistics>> chrf;
  for (const auto* name : {"base", "near", "better"}) {
    const auto lines = data.at("systems").at(name).get<Lines>();
    bleu.push_back(bleu_statistics(lines, references));
    chrf.push_back(chrf_statistics(lines, references));
  }
  ASSERT_EQ(all.at("paired").size(), 4u);
  for (const auto& given : all.at("paired")) {
    SCOPED_TRACE(given.at("test").get<std::string>() + " " + given.at("seed").dump());
    expect_same(given, given.at("scores").at("BLEU"), bleu,
                [](const BleuStatistics& sum) { return bleu_of(sum).score; });
    expect_same(given, given.at("scores").at("chrF2"), chrf,
                [](const ChrfStatistics& sum) { return chrf_of(sum); });
    const auto test = given.at("test") == "bs" ? PairedTest::bootstrap : PairedTest::randomization;
    const auto part =
        signature_of(test, {given.at("samples").get<size_t>(), given.at("seed").get<uint64_t>()});
    EXPECT_TRUE(given.at("signatures")
                    .at("BLEU")
                    .get<std::string>()
                    .starts_with("nrefs:1|" + part + "|case:"));
  }
}

struct Mean {
  double sum = 0, count = 0;
  Mean& operator+=(const Mean& other) {
    sum += other.sum;
    count += other.count;
    return *this;
  }
};
double mean_of(const Mean& mean) {
  return mean.sum / mean.count;
}

TEST(Significance, TellsASystemFromABetterOneAndNotFromItself) {
  std::vector<Mean> system, better;
  for (int i = 0; i < 50; ++i) {
    system.push_back({static_cast<double>(i * 7 % 10), 1});
    better.push_back({static_cast<double>(i * 7 % 10 + 3), 1});
  }
  const std::span<const Mean> first = system, second = better;
  const Trials trials = {.count = 99};
  EXPECT_EQ(paired_randomization(first, second, mean_of, trials), 0.01);
  EXPECT_EQ(paired_randomization(first, first, mean_of, trials), 0.01)
      << "no trial differs by more than nothing";
  EXPECT_EQ(paired_bootstrap(first, second, mean_of, trials), 0.01);
  EXPECT_THROW(paired_bootstrap(first, second.first(3), mean_of, trials), std::invalid_argument);
  EXPECT_THROW(paired_randomization(first, second.first(3), mean_of, trials),
               std::invalid_argument);
}

TEST(ConfidenceInterval, LeavesOutAFortiethAtEitherEnd) {
  std::vector<double> scores;
  for (int i = 0; i < 80; ++i) scores.push_back(79 - i);
  const auto interval = confidence_interval(scores);
  EXPECT_EQ(interval.mean, 39.5);
  EXPECT_EQ(interval.half_width, (77.0 - 2.0) / 2);
  EXPECT_THROW(confidence_interval({}), std::invalid_argument);
}

}  // namespace
}  // namespace longbow::metrics
