#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/cli/program.h"

namespace longbow::cli {
namespace {

using nlohmann::json;

Arguments bench(const std::string& lengths, const Arguments& more) {
  Arguments words = {"bench", "--lengths",     lengths, "--width", "16",        "--heads",
                     "2",     "--repetitions", "3",     "--json",  "bench.json"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(BenchCommand, TakesOptionsAndANumberOfTokens) {
  const Workspace here;
  const auto outcome = here.run(
      bench("32,64", {"--mechanism", "{name: linformer, rank: 4, label: k 4}", "--mechanism",
                      "{name: local, window: 8}", "--modes", "forward", "--tokens", "128"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto result = json::parse(here.read("bench.json"));
  EXPECT_EQ(result.at("context").at("tokens"), 128);
  std::set<std::string> names;
  for (const auto& row : result.at("benchmarks")) names.insert(row.at("mechanism"));
  EXPECT_EQ(names, (std::set<std::string>{"softmax", "softmax_libtorch", "softmax_naive", "k 4",
                                          "local"}));
  const auto unknown = here.run(bench("32", {"--mechanism", "{name: linformr}"}));
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.err,
            "longbow: --mechanism:1: unknown mechanism 'linformr'; did you mean 'linformer'?\n");
}

TEST(BenchCommand, TwoMechanismsOfOneLabelAreAMistake) {
  const std::string line =
      "two mechanisms are called 'local'; give one a label of its own, as in {name: softmax, "
      "label: other}\n";
  const Workspace here;
  const auto twice = here.run(bench("16", {"--mechanism", "{name: local, window: 4}", "--mechanism",
                                           "{name: local, window: 8}"}));
  EXPECT_EQ(twice.code, 2);
  EXPECT_EQ(twice.err, "longbow: --mechanism:1: " + line);
  EXPECT_EQ(here.run(bench("16", {"--mechanism", "local", "--mechanisms", "local"})).err,
            "longbow: --mechanisms: " + line);
  EXPECT_EQ(here.run(bench("16", {"--mechanism", "{name: linear, label: softmax}"})).err,
            "longbow: --mechanism:1: " + replaced(line, "local", "softmax"));
  EXPECT_FALSE(here.has("bench.json")) << "nothing was measured";
}

TEST(BenchCommand, LengthsRiseAndNothingIsMeasuredTwice) {
  const Workspace here;
  ASSERT_EQ(
      here.run(bench("64,16,64", {"--mechanisms", "linear", "--modes", "forward,forward"})).code,
      0);
  const auto result = json::parse(here.read("bench.json"));
  std::vector<std::string> names;
  for (const auto& row : result.at("benchmarks"))
    if (row.at("mechanism") == "linear") names.push_back(row.at("name"));
  EXPECT_EQ(names, (std::vector<std::string>{"linear/forward/16", "linear/forward/64"}));
  EXPECT_EQ(result.at("growth").size(), 4u) << "a row for each mechanism";
}

TEST(BenchCommand, AFileThatCannotBeWrittenIsAMistakeBeforeAnythingIsMeasured) {
  const auto outcome = Workspace().run({"bench", "--mechanisms", "linear", "--lengths", "64",
                                        "--modes", "forward", "--json", "nowhere/x.json"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "longbow: nowhere/x.json: cannot be written; there is no folder 'nowhere'\n");
}

// The repetitions of each mechanism take a good part of a second.
TEST(BenchCommand, WhatWasMeasuredIsKeptWhenItIsKilled) {
  const Workspace here;
  const auto has = [&](const char* name) {
    return here.read("bench.json").find(name) != std::string::npos;
  };
  Running program(here.folder(), {"bench", "--mechanisms", "linear", "--lengths", "64", "--modes",
                                  "forward", "--width", "16", "--heads", "2", "--repetitions",
                                  "20000", "--json", "bench.json"});
  ASSERT_TRUE(program.wait_until([&] { return has("softmax/forward/64"); }));
  program.signal(SIGKILL);
  program.finish();
  EXPECT_EQ(json::parse(here.read("bench.json")).at("benchmarks").at(0).at("status"), "ok");
  EXPECT_FALSE(has("linear/forward/64")) << "it was not killed while it measured";
}

// A layer of 1,024 tokens would not have such options.
TEST(BenchCommand, OptionsAreThoseOfTheLengthsThatAreMeasured) {
  const Workspace here;
  const auto outcome = here.run(
      bench("1200", {"--mechanism", "{name: linformer, rank: 1100}", "--modes", "forward"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(json::parse(here.read("bench.json")).at("benchmarks").back().at("status"), "ok");
  const auto unknown = here.run(bench("16", {"--mechanism", "{name: linformer, rnak: 4}"}));
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.err, "longbow: --mechanism:1: unknown key 'rnak'; did you mean 'rank'?\n");
}

TEST(BenchCommand, SaysWhereTheTimeGoes) {
  const Workspace here;
  const auto outcome =
      here.run(bench("16,32", {"--mechanisms", "linear", "--modes", "training", "--profile"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("linear training over 32 tokens: "), std::string::npos);
  EXPECT_EQ(outcome.out.find("over 16 tokens"), std::string::npos);
  EXPECT_NE(outcome.out.find(" x aten::bmm\n"), std::string::npos) << outcome.out;
}

TEST(BenchCommand, TimesAWholeModel) {
  const Workspace here;
  const std::string config =
      "task: recall\nmodel: {width: 16, layers: 1}\ntrain: {batch_size: 2}\n";
  here.write("run.yaml", config);
  const auto outcome = here.run(bench("32,64", {"--mechanisms", "linear", "--config", "run.yaml"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("training steps per second"), std::string::npos);
  EXPECT_NE(outcome.out.find("(1.00x, "), std::string::npos) << outcome.out;
  const auto result = json::parse(here.read("bench.json"));
  EXPECT_EQ(result.at("context").at("config"), "run.yaml");
  ASSERT_EQ(result.at("benchmarks").size(), 4u);
  for (const auto& row : result.at("benchmarks")) {
    EXPECT_EQ(row.at("mode"), "model");
    EXPECT_EQ(row.at("status"), "ok") << row.at("reason");
    EXPECT_GT(row.at("real_time").get<double>(), 0);
  }
  here.write("run.yaml", replaced(config, "recall", "markov"));
  EXPECT_EQ(
      here.run(bench("32", {"--config", "run.yaml"})).err,
      "longbow: run.yaml: the objective is causal_lm; on random texts, training is timed of a "
      "classifier and decode of a causal_lm\n");
  EXPECT_EQ(here.run(bench("32", {"--config", "run.yaml", "--modes", "forward"})).err,
            "longbow: --modes: a model has no mode 'forward'; one of: training, decode\n");
}

TEST(BenchCommand, TimesTheTokensThatAModelWrites) {
  const Workspace here;
  here.write("run.yaml", "task: markov\nmodel: {width: 16, layers: 1}\ntrain: {batch_size: 3}\n");
  const auto outcome = here.run(bench("16,32", {"--mechanisms", "linear,fnet", "--config",
                                                "run.yaml", "--modes", "decode", "--profile"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("linear model_decode over 32 tokens: "), std::string::npos);
  EXPECT_NE(outcome.out.find("tokens written per second"), std::string::npos);
  const auto result = json::parse(here.read("bench.json"));
  ASSERT_EQ(result.at("benchmarks").size(), 4u) << "fnet does not write";
  for (const auto& row : result.at("benchmarks")) {
    EXPECT_EQ(row.at("mode"), "model_decode");
    EXPECT_EQ(row.at("status"), "ok") << row.at("reason");
    EXPECT_NEAR(row.at("tokens_per_second").get<double>() * row.at("real_time").get<double>(), 3e3,
                1e-6);
  }
}

TEST(BenchCommand, WritesTheDocumentedForm) {
  const Workspace here;
  const auto outcome = here.run(
      bench("32,64", {"--mechanisms", "linear,fnet", "--modes", "forward,training,decode"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(lines_of(outcome.out).back(), "bench.json");
  const auto result = json::parse(here.read("bench.json"));
  for (const auto* key : {"version", "commit", "compiler", "machine", "dtype"})
    EXPECT_TRUE(result.at("context").contains(key)) << key;
  for (const auto* key : {"peak_operations", "peak_bytes_per_second"})
    EXPECT_GT(result.at("context").at(key).get<double>(), 1e7) << key;
  EXPECT_NE(outcome.out.find("training over 64 tokens: operators started"), std::string::npos);
  std::set<std::string> names;
  for (const auto& row : result.at("benchmarks")) {
    SCOPED_TRACE(row.dump());
    names.insert(row.at("name").get<std::string>());
    EXPECT_EQ(row.at("status"), "ok");
    EXPECT_EQ(row.at("time_unit"), "ms");
    EXPECT_GT(row.at("real_time").get<double>(), 0);
    EXPECT_LE(row.at("p20").get<double>(), row.at("real_time").get<double>());
    EXPECT_GE(row.at("p80").get<double>(), row.at("real_time").get<double>());
    EXPECT_GT(row.at("peak_bytes").get<double>(), 0);
    EXPECT_GE(row.at("launches").get<double>(), 4);
    const double tokens = row.at("mode") == "decode" ? 1 : row.at("length").get<double>();
    EXPECT_NEAR(row.at("tokens_per_second").get<double>() * row.at("real_time").get<double>(),
                1e3 * tokens, 1e-6 * tokens);
    // Four projections of 32 or 64 tokens of width 16 at least, but for fnet, and their tensors.
    if (row.at("mode") != "decode") {
      EXPECT_GT(row.at("operations").get<double>(),
                row.at("mechanism") == "fnet" ? 1e3 : 4.0 * 2 * 32 * 16 * 16);
      EXPECT_GT(row.at("moved_bytes").get<double>(), 2 * 4.0 * 32 * 16);
    }
    if (row.at("mode") != "forward") continue;
    EXPECT_GT(row.at("error").get<double>(), 0) << "float32 is not float64";
    EXPECT_LT(row.at("error").get<double>(), 1e-4);
  }
  for (const auto* name :
       {"softmax/forward/32", "softmax_naive/forward/64", "linear/decode/64", "fnet/training/32"})
    EXPECT_TRUE(names.count(name)) << name;
  EXPECT_FALSE(names.count("fnet/decode/32")) << "it has no decoding state";
  for (const auto& row : result.at("growth"))
    for (const auto* key :
         {"mechanism", "mode", "time_exponent", "memory_exponent", "crossover_length"})
      EXPECT_TRUE(row.contains(key)) << key;
}

TEST(BenchCommand, TheMemoryOfNaiveSoftmaxGrowsFasterThanThatOfLinear) {
  const Workspace here;
  ASSERT_EQ(here.run(bench("256,512,1024", {"--mechanisms", "linear", "--modes", "forward"})).code,
            0);
  const auto result = json::parse(here.read("bench.json"));
  std::map<std::string, double> exponents;
  for (const auto& row : result.at("growth"))
    exponents[row.at("mechanism")] = row.at("memory_exponent").get<double>();
  EXPECT_GT(exponents.at("softmax_naive"), 1.7);
  EXPECT_LT(exponents.at("linear"), 1.2);
}

TEST(BenchCommand, GrowthStandsBesideWhatIsPromised) {
  const Workspace here;
  const auto outcome = here.run(bench("64,128,256", {"--growth", "--mechanisms", "linear,axial"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("training: least processor time in ms"), std::string::npos);
  EXPECT_NE(outcome.out.find("promised"), std::string::npos);
  const auto result = json::parse(here.read("bench.json"));
  std::map<std::string, double> promised;
  for (const auto& row : result.at("growth")) {
    promised[row.at("mechanism")] = row.at("promised_time_exponent").get<double>();
    EXPECT_TRUE(row.at("cpu_exponent").is_number());
    EXPECT_EQ(row.at("promised_memory_exponent"), 1);
    EXPECT_EQ(row.at("mode"), "training");
  }
  EXPECT_EQ(promised, (std::map<std::string, double>{{"linear", 1}, {"axial", 1.5}}));
  for (const auto& row : result.at("benchmarks")) EXPECT_GT(row.at("cpu_time").get<double>(), 0);
}

TEST(BenchCommand, WhatIsPromisedDependsOnTheMask) {
  const Workspace here;
  const auto promised = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--growth", "--mechanisms", "transformer_ls"});
    EXPECT_EQ(here.run(bench("8,16", flags)).code, 0);
    const auto row = json::parse(here.read("bench.json")).at("growth").at(0);
    return std::pair<double, double>(row.at("promised_time_exponent"),
                                     row.at("promised_memory_exponent"));
  };
  EXPECT_EQ(promised({}), std::pair(1.0, 1.0));
  EXPECT_EQ(promised({"--causal"}), std::pair(1.5, 1.5));
}

TEST(BenchCommand, GrowthIsOfThoseThatPromiseLessThanSoftmax) {
  const Workspace here;
  (void)here.run(bench("1", {"--growth"}));
  std::set<std::string> names;
  const auto result = json::parse(here.read("bench.json"));
  for (const auto& row : result.at("growth")) names.insert(row.at("mechanism"));
  EXPECT_TRUE(names.count("linear") && names.count("sparse"));
  EXPECT_FALSE(names.count("softmax") || names.count("softmax_naive") || names.count("rela"));
}

TEST(BenchCommand, ACausalMaskIsGivenToThoseThatTakeIt) {
  const Workspace here;
  EXPECT_EQ(here.run(bench("64", {"--growth", "--causal"})).code, 0);
  std::set<std::string> names;
  const auto result = json::parse(here.read("bench.json"));
  for (const auto& row : result.at("growth")) names.insert(row.at("mechanism"));
  EXPECT_TRUE(names.count("linear"));
  EXPECT_FALSE(names.count("fnet"));
  EXPECT_EQ(here.run(bench("64", {"--causal", "--mechanisms", "fnet"})).code, 1) << "it was named";
}

// One draws random numbers in training.
TEST(BenchCommand, WhatIsCausalOnlyOrRandomIsMeasuredSo) {
  const Workspace here;
  const auto outcome =
      here.run(bench("32", {"--mechanisms", "transformer_xl,compressive,reformer"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const auto& row : json::parse(here.read("bench.json")).at("benchmarks"))
    EXPECT_EQ(row.at("status"), "ok") << row;
}

TEST(BenchCommand, ACausalMaskIsForThoseWhoHonourIt) {
  const Workspace here;
  ASSERT_EQ(here.run(bench("32", {"--mechanisms", "linear,fnet", "--causal"})).code, 1);
  const auto result = json::parse(here.read("bench.json"));
  EXPECT_EQ(result.at("context").at("causal"), true);
  for (const auto& row : result.at("benchmarks"))
    EXPECT_EQ(row.at("status"), row.at("mechanism") == "fnet" ? "FAIL" : "ok") << row;
}

TEST(BenchCommand, IsReportedAsOnePage) {
  const Workspace here;
  ASSERT_EQ(here.run(bench("32,64", {"--mechanisms", "linear", "--modes", "forward"})).code, 0);
  const auto outcome = here.run({"report", "bench.json", "--out", "page"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "page/report.html\n");
  EXPECT_NE(here.read("page/report.html").find("<svg"), std::string::npos);
}

TEST(BenchCommand, RefusesHeadsThatDoNotDivideTheWidth) {
  const auto outcome = Workspace().run({"bench", "--width", "16", "--heads", "3"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "longbow: --heads: width 16 is not a multiple of 3 heads\n");
}

TEST(BenchCommand, ALengthIsANumberFromOneUp) {
  for (const std::string length : {"0", "a"}) {
    const auto outcome = Workspace().run({"bench", "--lengths", "16," + length});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.err, "longbow: --lengths: '" + length +
                               "' is not a whole number of at least 1; see --help\n");
  }
}

TEST(BenchCommand, AMechanismThatDoesNotFitALengthSaysSoInItsRow) {
  const Workspace here;
  ASSERT_EQ(here.run(bench("16", {"--mechanisms", "linformer", "--modes", "forward"})).code, 1);
  const auto rows = json::parse(here.read("bench.json")).at("benchmarks");
  EXPECT_EQ(rows.back().at("status"), "FAIL");
  EXPECT_EQ(rows.back().at("reason"),
            "--mechanisms: linformer.rank is 64, but max_length is 17; lower rank");
}

// Linformer's 64 slots are more than the tokens.
TEST(BenchCommand, AFailedRowIsAFailure) {
  const Workspace here;
  const auto outcome = here.run(bench("1", {"--mechanisms", "linformer", "--modes", "forward"}));
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_EQ(lines_of(outcome.out).back(), "bench.json");
  for (const auto& row : json::parse(here.read("bench.json")).at("benchmarks"))
    EXPECT_EQ(row.at("status"), row.at("mechanism") == "linformer" ? "FAIL" : "ok");
}

// 64 TiB a matrix.
TEST(BenchCommand, WhatDoesNotFitIsOutOfMemory) {
  const Workspace here;
  const auto outcome = here.run({"bench", "--mechanisms", "linear", "--modes", "forward",
                                 "--lengths", "4", "--width", "4194304", "--heads", "1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("linear forward 4: OOM not enough memory: 64 TiB are asked for, "),
            std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace longbow::cli
