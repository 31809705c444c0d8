#include <algorithm>
#include <cmath>

#include "tests/cli/asked.h"

namespace longbow::cli {
namespace {

using nlohmann::json;

std::string with_steps(const std::string& config, const std::string& steps) {
  return replaced(config, "max_steps: 240", "max_steps: " + steps);
}

double share_right(const std::vector<json>& objects, const std::string& guess) {
  double right = 0, count = 0;
  const auto tally = [&](const json& got, const json& want) {
    if (want.is_null()) return;
    right += got == want;
    ++count;
  };
  for (const auto& object : objects) {
    const auto &got = object.at(guess), &want = object.at("target");
    if (!want.is_array())
      tally(got, want);
    else
      for (size_t i = 0; i < want.size(); ++i) tally(got.at(i), want.at(i));
  }
  return right / count;
}

json evaluated(const Workspace& here, const std::string& split) {
  return objects_of(answered(here, {"eval", "run", "--split", split, "--json"})).at(0);
}

TEST(PredictCommand, OfASplitHasTheAccuracyOfItsEvaluation) {
  const Workspace here;
  train_run(here, "run", with_steps(kTinyRecall, "60"));
  for (const auto* split : {"test", "valid"}) {
    const auto objects = objects_of(answered(here, {"predict", "run", "--split", split, "--json"}));
    ASSERT_EQ(objects.size(), 24u);
    EXPECT_NEAR(share_right(objects, "classes"), evaluated(here, split).at("accuracy"), 1e-9);
  }
  EXPECT_GT(evaluated(here, "test").at("accuracy"), 0.3) << "more than by chance";
  const auto said = objects_of(answered(here, {"predict", "run", "--split", "test", "--json"}))[0];
  EXPECT_TRUE(said.at("input").get<std::string>().starts_with("k")) << said.dump();
  for (size_t i = 0; i < said.at("classes").size(); ++i)
    EXPECT_EQ(said.at("labels")[i], "v" + said.at("classes")[i].dump());
  const auto few = answered(here, {"predict", "run", "--split", "test", "--limit", "3", "--json"});
  EXPECT_EQ(lines_of(few).size(), 3u);
}

TEST(PredictCommand, HidesTheTokensThatAnEvaluationHides) {
  const Workspace here;
  train_run(here, "run", "objective: masked_lm\n" + with_steps(kTinyRecall, "20"));
  const auto objects = objects_of(answered(here, {"predict", "run", "--split", "test", "--json"}));
  EXPECT_NEAR(share_right(objects, "words"), evaluated(here, "test").at("accuracy"), 1e-9);

  here.write("in.txt", "k1 v2 [MASK] v3\n");
  const auto said = objects_of(answered(here, {"predict", "run", "--file", "in.txt", "--json"}));
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0]["places"], std::vector<int>{2});
  EXPECT_EQ(said[0]["text"], "k1 v2 " + said[0]["words"][0].get<std::string>() + " v3");
  here.write("in.txt", "k1 v2\n");
  EXPECT_EQ(error_line(here, {"predict", "run", "--file", "in.txt"}),
            "in.txt:1: there is nothing to guess; write [MASK] for it");
}

TEST(PredictCommand, SaysOfALineWhatItSaysOfTheSameSample) {
  const Workspace here;
  train_run(here, "run",
            "task: listops\n"
            "data: {listops: {train: 60, valid: 8, test: 8, min_length: 5, max_length: 30}}\n"
            "model: {width: 16, layers: 1, attention: linear}\n"
            "train: {max_steps: 5, batch_size: 4, bucket: 8, threads: 0}\n");
  here.write("in.txt", "[MAX 2 9 ]\n[SM [MIN 4 7 1 ] 8 8 3 5 ]\n[MED 1 ]\n");
  const auto lines = lines_of(answered(here, {"predict", "run", "--file", "in.txt"}));
  const auto objects = objects_of(answered(here, {"predict", "run", "--file", "in.txt", "--json"}));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], "input\tclass\tlabel\tprobability");
  ASSERT_EQ(objects.size(), 3u);
  const auto inputs = lines_of(here.read("in.txt"));
  for (size_t i = 0; i < 3; ++i) {
    const auto digit = objects[i].at("class").dump();
    EXPECT_TRUE(lines[i + 1].starts_with(inputs[i] + "\t" + digit + "\t" + digit + "\t0."));
    EXPECT_EQ(objects[i].at("input"), inputs[i]);
    EXPECT_EQ(objects[i].at("label"), digit);
    EXPECT_FALSE(objects[i].contains("target"));
    EXPECT_GT(objects[i].at("probability"), 0.1);
  }
  here.write("one.txt", "[SM [MIN 4 7 1 ] 8 8 3 5 ]");
  const auto alone = objects_of(answered(here, {"predict", "run", "--file", "one.txt", "--json"}));
  EXPECT_EQ(alone.at(0).at("class"), objects[1].at("class"));
  EXPECT_NEAR(alone.at(0).at("probability"), objects[1].at("probability"), 1e-6);
}

TEST(PredictCommand, ReadsPairsWithATabBetweenThem) {
  for (const auto* arrangement : {"towers", "joint"}) {
    const Workspace here;
    train_run(here, "run",
              std::string("task: match\n"
                          "data: {match: {train: 64, valid: 8, test: 16, length: 8, topics: 2, "
                          "words: 3}}\nmodel: {width: 16, layers: 1, pairs: ") +
                  arrangement + "}\ntrain: {max_steps: 5, batch_size: 4, bucket: 4, threads: 0}\n");
    const auto objects =
        objects_of(answered(here, {"predict", "run", "--split", "test", "--json"}));
    EXPECT_NEAR(share_right(objects, "class"), evaluated(here, "test").at("accuracy"), 1e-9);
    here.write("in.txt", "t0w0 t0w1\tt1w2 t1w0 t1w1\nt0w0\tt0w0\n");
    const auto lines = lines_of(answered(here, {"predict", "run", "--file", "in.txt"}));
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_TRUE(lines[1].starts_with("t0w0 t0w1 | t1w2 t1w0 t1w1\t")) << lines[1];
    for (const auto& object : objects) {
      EXPECT_EQ(object.at("label"), object.at("class") == 1 ? "same" : "different");
      const auto input = object.at("input").get<std::string>();
      EXPECT_EQ(input.find("<sep>"), std::string::npos) << input;
      EXPECT_EQ(input.find('\t'), input.rfind('\t')) << input;
      EXPECT_EQ(std::count(input.begin(), input.end(), 't'), 16) << input;
    }
    here.write("in.txt", "t0w0\tt0w0\nt0w0 t0w1\n");
    EXPECT_EQ(error_line(here, {"predict", "run", "--file", "in.txt"}),
              "in.txt:2: there is no TAB; an input is two sequences with a TAB between them");
    here.write("in.txt", "t0w0\t\n");
    EXPECT_EQ(error_line(here, {"predict", "run", "--file", "in.txt"}),
              "in.txt:1: there are no tokens; a line is one input");
    here.write("in.txt", "t0w0\tt0w1\tt0w2\n");
    EXPECT_EQ(error_line(here, {"predict", "run", "--file", "in.txt"}),
              "in.txt:1: a TAB too many; an input is two sequences with a TAB between them");
  }
}

TEST(PredictCommand, SpansValuesAndReplacedTokens) {
  const Workspace here;
  const auto train = "\ntrain: {max_steps: 3, batch_size: 8, bucket: 4, threads: 0}\n";
  const std::string sizes = "train: 32, valid: 8, test: 16, length: 8";
  train_run(here, "needle",
            "task: needle\ndata: {needle: {" + sizes + "}}\nmodel: {width: 8}" + train);
  auto objects = objects_of(answered(here, {"predict", "needle", "--split", "test", "--json"}));
  double exact = 0;
  for (const auto& object : objects)
    exact += json{object.at("first"), object.at("last")} == object.at("target");
  const auto score = objects_of(answered(here, {"eval", "needle", "--json"})).at(0);
  EXPECT_NEAR(exact / 16, score.at("exact_match"), 1e-9);

  train_run(here, "count",
            "task: count\ndata: {count: {" + sizes + "}}\nmodel: {width: 8}" + train);
  objects = objects_of(answered(here, {"predict", "count", "--split", "test", "--json"}));
  double error = 0;
  for (const auto& object : objects)
    error += std::pow(object.at("value").get<double>() - object.at("target").get<double>(), 2);
  EXPECT_NEAR(error / 16, objects_of(answered(here, {"eval", "count", "--json"})).at(0).at("mse"),
              1e-5);

  train_run(here, "replaced",
            "task: count\nobjective: replaced_tokens\ndata: {count: {" + sizes +
                "}}\nmodel: {width: 8}" + train);
  here.write("in.txt", "# w1 w2\n");
  const auto said =
      objects_of(answered(here, {"predict", "replaced", "--file", "in.txt", "--json"}));
  EXPECT_EQ(said.at(0).at("text"), "# w1 w2");
  EXPECT_EQ(said.at(0).at("probabilities").size(), 3u);
}

TEST(PredictCommand, SaysInOneLineWhatIsWrong) {
  const Workspace here;
  train_run(here, "run", with_steps(kTinyRecall, "1"));
  EXPECT_EQ(error_line(here, {"predict", "run", "--split", "tset"}),
            "--split: unknown split 'tset'; one of: train, valid, test");
  EXPECT_EQ(error_line(here, {"predict", "run", "--split", "test", "--file", "-"}),
            "--split: --file is given too; leave one of them out");
  EXPECT_EQ(error_line(here, {"generate", "run"}),
            "run: is a run of classification; generate needs one of causal_lm, perceiver_ar; ask "
            "this one with "
            "`longbow predict`");
  here.write("in.txt", "k1 v1\nk1 q9\n");
  EXPECT_EQ(error_line(here, {"predict", "run", "--file", "in.txt"}).substr(0, 48),
            "in.txt:2: token 2, 'q9', is not a symbol of the ");
}

}  // namespace
}  // namespace longbow::cli
