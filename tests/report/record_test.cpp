#include "longbow/report/table/record.h"

#include <gtest/gtest.h>

#include <functional>

#include "longbow/core/error.h"
#include "longbow/report/write/report.h"
#include "tests/report/sample.h"

namespace longbow {
namespace {

std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

std::string loading(const std::string& path) {
  return message([&] { load_record(path); });
}

const char* const kCell =
    R"({"mechanism": "softmax", "task": "listops", "seed": 3, "metric": "accuracy",
  "score": 0.5, "parameters": 12, "tokens_per_second": 7.5, "peak_bytes": 1024, "status": "ok", "reason": null,
  "split": "test", "chosen_by": "valid", "steps": 10, "seconds": 2.5, "run": "runs/a"})";

TEST(Record, AnArenaFolderGivesContextCellsAndCurves) {
  sample::Folder folder;
  folder.write("results.json",
               R"({"context": {"command": "longbow arena", "commit": "abc"}, "cells": [)" +
                   std::string(kCell) + "]}");
  folder.write("runs/a/metrics.jsonl", "{\"step\": 1, \"split\": \"train\", \"loss\": 2.5}\n");
  auto record = load_record(folder.str());
  ASSERT_EQ(record.context.size(), 2u);
  EXPECT_EQ(record.context[0].second, "longbow arena");
  ASSERT_EQ(record.cells.size(), 1u);
  EXPECT_EQ(record.cells[0].seed, 3);
  EXPECT_EQ(record.cells[0].score, 0.5);
  EXPECT_EQ(record.cells[0].tokens_per_second, 7.5);
  EXPECT_EQ(record.cells[0].chosen_by, "valid");
  ASSERT_EQ(record.curves.size(), 1u);
  EXPECT_EQ(record.curves[0].label, "softmax");
  EXPECT_EQ(record.curves[0].seed, 3);
  EXPECT_EQ(record.curves[0].points[0].second, 2.5);
  EXPECT_TRUE(record.notes.empty());
}

TEST(Record, TheContextOfABareArrayStandsBesideIt) {
  sample::Folder folder;
  folder.write("results.json", "[" + std::string(kCell) + "]");
  folder.write("context.json", R"({"commit": "abc", "machine": "a box"})");
  const auto record = load_record(folder.str());
  ASSERT_EQ(record.context.size(), 2u);
  EXPECT_EQ(record.context[1].second, "a box");
}

TEST(Record, AnArenaIsCalledByItsOwnNameAndDate) {
  sample::Folder folder;
  folder.write("results.json", "[" + std::string(kCell) + "]");
  folder.write("context.json", R"({"name": "lra", "commit": "abc", "date": "2020-02-20"})");
  const auto record = load_record(folder.str());
  EXPECT_EQ(record.title, "lra");
  EXPECT_EQ(record.date, "2020-02-20");
  EXPECT_EQ(record.context, (decltype(record.context){{"commit", "abc"}}));
}

TEST(Record, WhatHasNoNameIsCalledByItsFolderOrFile) {
  sample::Folder folder;
  folder.write("first/results.json", R"({"metric": "accuracy", "score": 0.75})");
  folder.write("second/metrics.jsonl", "{\"step\": 1, \"split\": \"train\", \"loss\": 2}\n");
  folder.write("night.json", R"({"benchmarks": []})");
  const auto run = load_record(folder.str() + "/first/");
  EXPECT_EQ(run.kind, "run");
  EXPECT_EQ(run.title, "first");
  EXPECT_EQ(run.date.size(), 10u) << run.date;
  EXPECT_TRUE(run.date.starts_with("20")) << run.date;
  const auto unfinished = load_record(folder.str() + "/second");
  EXPECT_EQ(unfinished.title, "second");
  EXPECT_EQ(unfinished.date, run.date);
  EXPECT_EQ(load_record(folder.str() + "/night.json").title, "night");
}

TEST(Record, ABareArrayOfCellsIsAnArena) {
  sample::Folder folder;
  auto record = load_record(folder.write("cells.json", "[" + std::string(kCell) + "]"));
  EXPECT_EQ(record.kind, "arena");
  EXPECT_EQ(record.title, "cells");
  EXPECT_EQ(record.cells.size(), 1u);
  ASSERT_EQ(record.notes.size(), 1u);
  EXPECT_NE(record.notes[0].find("metrics.jsonl: missing, so there are no curves of it"),
            std::string::npos);
}

TEST(Record, ARunTakesItsNamesFromItsConfig) {
  sample::Folder folder;
  folder.write("config.yaml", "task: {name: text}\nmodel:\n  attention: {name: performer}\n");
  folder.write("results.json", R"({"metric": "accuracy", "score": 0.75})");
  folder.write("metrics.jsonl", "{\"step\": 1, \"split\": \"train\", \"loss\": 2}\n");
  auto record = load_record(folder.str());
  ASSERT_EQ(record.cells.size(), 1u);
  EXPECT_EQ(record.cells[0].mechanism, "performer");
  EXPECT_EQ(record.cells[0].task, "text");
  EXPECT_EQ(record.curves.at(0).label, "performer");
  EXPECT_NE(record.config.find("performer"), std::string::npos);
}

TEST(Record, ACellMaySayHowItsScoreIsReadAndWhereItsMechanismStands) {
  sample::Folder folder;
  const auto load = [&](const std::string& more) {
    return load_record(folder.write(
        "cells.json",
        R"([{"mechanism": "a", "task": "t", "metric": "m", "score": 0.5)" + more + "}]"));
  };
  auto cell =
      load(R"(, "larger_is_better": false, "format": "percent", "sites": ["encoder"])").cells.at(0);
  EXPECT_EQ(cell.larger_is_better, false);
  EXPECT_EQ(cell.percent, true);
  EXPECT_EQ(cell.sites, std::vector<std::string>{"encoder"});
  cell = load("").cells.at(0);
  EXPECT_FALSE(cell.larger_is_better || cell.percent || !cell.sites.empty());
  EXPECT_EQ(
      loading(folder.write("cells.json", R"([{"mechanism": "a", "task": "t", "format": "%"}])")),
      folder.str() + "/cells.json: cells[0]: unknown format '%'; one of: percent, number");
}

TEST(Record, NumbersThatAreNotFiniteAreMissing) {
  sample::Folder folder;
  folder.write("results.json", R"([
    {"mechanism": "a", "task": "t", "metric": "perplexity", "score": ".inf", "status": "ok", "peak_bytes": ".nan"},
    {"mechanism": "b", "task": "t", "metric": "perplexity", "score": null, "status": "FAIL", "seconds": "-.inf",
     "reason": "perplexity is not finite", "sites": null},
    {"mechanism": "c", "task": "t", "metric": "perplexity", "score": 3, "tokens_per_second": null}])");
  folder.write("context.json", R"({"machine": null, "commit": "abc"})");
  auto record = load_record(folder.str());
  ASSERT_EQ(record.cells.size(), 3u);
  EXPECT_FALSE(record.cells[0].score || record.cells[0].peak_bytes);
  EXPECT_EQ(record.cells[0].status, "FAIL");
  EXPECT_EQ(record.cells[0].reason, "perplexity is .inf");
  EXPECT_FALSE(record.cells[1].score || record.cells[1].seconds);
  EXPECT_EQ(record.cells[1].reason, "perplexity is not finite");
  EXPECT_EQ(record.cells[2].score, 3);
  ASSERT_EQ(record.context.size(), 1u);
  const auto page = to_html(record);
  EXPECT_NE(page.find(">perplexity is .inf</td>"), std::string::npos);
  EXPECT_NE(page.find(">perplexity is not finite</td>"), std::string::npos);
  EXPECT_EQ(page.find("nan"), std::string::npos);
}

TEST(Record, APretrainedRunHasTheCurvesOfBoth) {
  sample::Folder folder;
  folder.write("results.json",
               R"({"mechanism": "a", "task": "t", "metric": "accuracy", "score": 1})");
  folder.write("metrics.jsonl", "{\"step\": 1, \"split\": \"train\", \"loss\": 2}\n");
  folder.write("pretrain/metrics.jsonl",
               "{\"step\": 1, \"split\": \"train\", \"perplexity\": 9}\n");
  auto record = load_record(folder.str());
  ASSERT_EQ(record.curves.size(), 2u);
  EXPECT_EQ(record.curves[1].task, "t: pretraining");
  EXPECT_EQ(record.curves[1].quantity, "perplexity");
}

TEST(Record, AnUnfinishedRunHasCurvesAndANote) {
  sample::Folder folder;
  folder.write("metrics.jsonl", "{\"step\": 1, \"split\": \"train\", \"loss\": 2}\n");
  auto record = load_record(folder.str());
  EXPECT_TRUE(record.cells.empty());
  EXPECT_EQ(record.curves.size(), 1u);
  ASSERT_EQ(record.notes.size(), 1u);
  EXPECT_NE(record.notes[0].find("results.json: missing, so this run has no score yet"),
            std::string::npos);
}

TEST(Record, ABenchIsReadInSeconds) {
  sample::Folder folder;
  auto record =
      load_record(folder.write("bench.json", R"({"context": {"machine": "x"}, "benchmarks": [
    {"name": "a/forward/256", "mechanism": "a", "length": 256, "mode": "forward", "real_time": 1.5, "time_unit": "us",
     "p20": 1, "p80": 2, "peak_bytes": 64, "error": 1e-7, "status": "ok"},
    {"name": "a/forward/512", "mechanism": "a", "length": 512, "mode": "forward", "real_time": null, "status": "OOM"}],
    "growth": [{"mechanism": "a", "mode": "forward", "time_exponent": 1.02, "cpu_exponent": 0.9,
     "promised_time_exponent": 1, "memory_exponent": 1, "promised_memory_exponent": null,
     "crossover_length": null}]})"));
  ASSERT_EQ(record.benchmarks.size(), 2u);
  EXPECT_DOUBLE_EQ(*record.benchmarks[0].seconds, 1.5e-6);
  EXPECT_DOUBLE_EQ(*record.benchmarks[0].p80, 2e-6);
  EXPECT_EQ(record.benchmarks[1].status, "OOM");
  EXPECT_FALSE(record.benchmarks[1].seconds);
  ASSERT_EQ(record.growth.size(), 1u);
  EXPECT_FALSE(record.growth[0].crossover_length);
  EXPECT_EQ(record.growth[0].cpu_exponent, 0.9);
  EXPECT_EQ(record.growth[0].promised_time, 1);
  EXPECT_FALSE(record.growth[0].promised_memory);
}

TEST(Record, WhatIsMissingIsNamed) {
  sample::Folder folder;
  EXPECT_EQ(loading(folder.str()),
            folder.str() +
                ": holds neither results.json nor metrics.jsonl; give the folder "
                "of an arena or of a run, or the JSON file of a bench");
  EXPECT_NE(loading(folder.str() + "/none.json").find("none.json: cannot be read"),
            std::string::npos);
}

TEST(Record, MalformedJsonNamesItsFile) {
  sample::Folder folder;
  auto path = folder.write("results.json", "{\"cells\": [");
  auto text = loading(folder.str());
  EXPECT_EQ(text.find(path), 0u) << text;
}

TEST(Record, WhatIsWrongWithACellIsSaid) {
  sample::Folder folder;
  auto loaded = [&](const std::string& json) { return loading(folder.write("r.json", json)); };
  auto file = folder.str() + "/r.json";
  EXPECT_EQ(loaded(R"([{"task": "listops"}])"), file + ": cells[0] has no 'mechanism'");
  EXPECT_EQ(loaded(R"([3])"), file + ": cells[0] is not an object");
  EXPECT_EQ(loaded(R"({"cells": {}})"), file + ": 'cells' is not a list");
  EXPECT_EQ(
      loaded(R"([{"mechanism": "a", "task": "t"}, {"mechanism": "a", "task": "t", "seed": 0}])"),
      file + ": a on t with seed 0 appears twice");
  EXPECT_NE(loaded(R"([{"mechanism": "a", "task": "t", "seed": 1.5}])").find("cells[0].seed"),
            std::string::npos);
  const std::string name(3000, 'x'), shown = "'" + std::string(60, 'x') + "…'";
  const auto cell = R"({"mechanism": ")" + name + R"(", "task": "t"})";
  EXPECT_EQ(loaded("[" + cell + "," + cell + "]"),
            file + ": " + shown + " on t with seed 0 appears twice");
  EXPECT_EQ(loaded(R"([{"mechanism": "a", "task": "t", "format": ")" + name + R"("}])"),
            file + ": cells[0]: unknown format " + shown + "; one of: percent, number");
  EXPECT_EQ(loaded("3"), file + ": holds neither cells nor benchmarks nor the result of a run");
  EXPECT_EQ(loaded(R"([{"mechanism": "a", "task": "t", "metric": "accuracy", "score": 57.5}])"),
            file + ": cells[0]: accuracy is 57.5, outside 0..1; write it as a fraction");
  EXPECT_NE(loaded(R"([{"mechanism": "a", "task": "t", "score": "high"}])").find("cells[0].score"),
            std::string::npos);
}

TEST(Record, WhatIsWrongWithABenchmarkIsSaid) {
  sample::Folder folder;
  auto loaded = [&](const std::string& row) {
    return loading(folder.write("b.json", "{\"benchmarks\": [" + row + "]}"));
  };
  auto file = folder.str() + "/b.json";
  EXPECT_EQ(loaded(R"({"mechanism": "a", "mode": "forward", "length": 8, "time_unit": "h"})"),
            file + ": benchmarks[0]: unknown time unit 'h'; one of: s, ms, us, ns");
  EXPECT_EQ(loaded(R"({"mechanism": "a", "mode": "forward"})"),
            file + ": benchmarks[0] has no 'length'");
}

}  // namespace
}  // namespace longbow
