#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "longbow/core/version.h"
#include "tests/cli/program.h"
#include "tests/corpus/support.h"

namespace longbow::cli {
namespace {

using nlohmann::json;

json scored(const Workspace& here, Arguments arguments) {
  arguments.insert(arguments.begin(), "score");
  arguments.push_back("--json");
  const auto outcome = here.run(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return outcome.code == 0 ? json::parse(outcome.out) : json();
}

void expect_mistake(const Workspace& here, Arguments arguments, const std::string& line) {
  arguments.insert(arguments.begin(), "score");
  const auto outcome = here.run(arguments);
  EXPECT_EQ(outcome.code, 2) << line;
  EXPECT_EQ(outcome.err, "longbow: " + line + "\n");
  EXPECT_EQ(outcome.out, "");
}

// Scores of these texts by sacreBLEU 2.6.0.
struct Translations : Workspace {
  Translations() {
    write("out.txt", "The cat sat on the mat.\nIt costs 1,000.50 dollars, he said.\nGood night\n");
    write("other.txt", "A cat is on the mat.\nIt costs 1,000.50 dollars.\nGood night!\n");
    write("ref.txt",
          "The cat is on the mat.\r\nIt costs 1,000.50 dollars, she said.\r\nGood night!\r\n");
    write("ref2.txt", "A cat sat on the mat.\nThe price is 1,000.50.\nSleep well\n");
  }
};

TEST(ScoreCommand, GivesBleuWithItsCountsAndSignature) {
  const Translations here;
  const auto bleu = scored(here, {"bleu", "--hypotheses", "out.txt", "--references", "ref.txt"});
  EXPECT_NEAR(bleu.at("score").get<double>(), 52.41382536784717, 1e-10);
  EXPECT_EQ(bleu.at("counts"), json({15, 10, 5, 3}));
  EXPECT_EQ(bleu.at("totals"), json({17, 14, 11, 9}));
  EXPECT_NEAR(bleu.at("precisions")[1].get<double>(), 71.42857142857143, 1e-10);
  EXPECT_NEAR(bleu.at("brevity_penalty").get<double>(), 0.9428731438548749, 1e-12);
  EXPECT_EQ(bleu.at("hypothesis_length"), 17);
  EXPECT_EQ(bleu.at("reference_length"), 18);
  EXPECT_EQ(bleu.at("signature"),
            "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:longbow-" + version());
}

TEST(ScoreCommand, PrintsBleuAsSacreBleuDoes) {
  const Translations here;
  const auto outcome =
      here.run({"score", "bleu", "--hypotheses", "out.txt", "--references", "ref.txt", "ref2.txt",
                "--lowercase", "--tokenize", "char", "--smooth", "floor"});
  EXPECT_EQ(outcome.out,
            "BLEU|nrefs:2|case:lc|eff:no|tok:char|smooth:floor[0.10]|version:longbow-" + version() +
                " = 96.54 98.2/98.1/96.1/93.8 (BP = 1.000 ratio = 1.000 hyp_len = 57 ref_len = "
                "57)\n");
  EXPECT_EQ(outcome.err, "");
}

TEST(ScoreCommand, ScoresEachSentenceToo) {
  const Translations here;
  const auto outcome = here.run(
      {"score", "bleu", "--hypotheses", "out.txt", "--references", "ref.txt", "--sentences"});
  EXPECT_TRUE(outcome.out.starts_with("48.89\n59.46\n60.65\nBLEU|nrefs:1|")) << outcome.out;
  const auto chrf = scored(here, {"chrf", "--hypotheses", "out.txt", "--references", "ref.txt",
                                  "--word-order", "2", "--sentences"});
  EXPECT_EQ(chrf.at("name"), "chrF2++");
  EXPECT_NEAR(chrf.at("score").get<double>(), 80.4119902462246, 1e-10);
  EXPECT_NEAR(chrf.at("sentences")[1].get<double>(), 85.81667653684958, 1e-10);
}

TEST(ScoreCommand, TestsADifferenceBetweenTwoSystems) {
  const Translations here;
  const auto bleu = scored(here, {"bleu", "--hypotheses", "out.txt", "--references", "ref.txt",
                                  "--paired", "other.txt", "--confidence", "--trials", "100"});
  EXPECT_NEAR(bleu.at("confidence").at("mean").get<double>(), 50.05209672339748, 1e-4);
  EXPECT_NEAR(bleu.at("confidence").at("half_width").get<double>(), 8.427975419915448, 1e-4);
  EXPECT_NEAR(bleu.at("paired").at("score").get<double>(), 65.24482252773362, 1e-10);
  EXPECT_NEAR(bleu.at("paired").at("p_value").get<double>(), 0.2871287128712871, 1e-12);
  EXPECT_EQ(bleu.at("signature"),
            "BLEU|nrefs:1|bs:100|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:longbow-" +
                version());
  const auto outcome = here.run({"score", "chrf", "--hypotheses", "out.txt", "--references",
                                 "ref.txt", "--word-order", "2", "--paired", "other.txt", "--test",
                                 "randomization", "--confidence", "--trials", "100"});
  EXPECT_EQ(outcome.out,
            "chrF2++|nrefs:1|bs:100|ar:100|seed:12345|case:mixed|eff:yes|nc:6|nw:2|space:no|"
            "version:longbow-" +
                version() +
                " = 80.41\n95 % confidence: 79.12 ± 8.19\n"
                "other.txt: 78.33, difference +2.08, p = 0.7327 (randomization)\n");
}

TEST(ScoreCommand, ReadsFromStdin) {
  const Translations here;
  const int input = open(here.path("out.txt").c_str(), O_RDONLY);
  ASSERT_GE(input, 0);
  const auto outcome =
      Running(here.folder(), {"score", "bleu", "--hypotheses", "-", "--references", "ref.txt"},
              ".stdout", input)
          .finish();
  close(input);
  EXPECT_NE(outcome.out.find(" = 52.41 "), std::string::npos) << outcome.out << outcome.err;
}

TEST(ScoreCommand, WarnsOfReferencesThatLookTokenized) {
  const Translations here;
  here.write("tokens.txt", "The cat is on the mat .\nIt costs 1,000.50 dollars .\nGood night !\n");
  const auto outcome =
      here.run({"score", "bleu", "--hypotheses", "out.txt", "--references", "tokens.txt"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err,
            "warning: tokens.txt: looks tokenized; scores are comparable on the original text "
            "only\n");
  EXPECT_EQ(here.run({"score", "bleu", "--hypotheses", "out.txt", "--references", "tokens.txt",
                      "--tokenize", "none"})
                .err,
            "");
}

TEST(ScoreCommand, AnswersMistakesInTextsWithOneLine) {
  const Translations here;
  here.write("short.txt", "a\nb\n");
  here.write("empty.txt", "");
  here.write("latin.txt", "a\nb\xe9\nc\n");
  const Arguments bleu = {"bleu", "--hypotheses", "out.txt", "--references"};
  const auto with = [](Arguments words, const Arguments& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  expect_mistake(here, with(bleu, {"ref.txt", "short.txt"}),
                 "short.txt: 2 lines, but out.txt has 3; line N of one file belongs to line N of "
                 "the other");
  expect_mistake(here, with(bleu, {"empty.txt"}), "empty.txt: is empty; give one text a line");
  expect_mistake(here, with(bleu, {"latin.txt"}),
                 "latin.txt:2: column 2: byte 0xe9 is not UTF-8; convert the file with iconv");
  expect_mistake(here, with(bleu, {"."}), ".: is a folder; give files with one text per line");
  expect_mistake(here, with(bleu, {"ref.txt", "--tokenize", "13b"}),
                 "--tokenize: unknown value '13b'; did you mean '13a'?");
  expect_mistake(here, with(bleu, {"ref.txt", "--smooth", "most"}),
                 "--smooth: unknown value 'most'; one of: exp, floor, add-k, none");
  expect_mistake(here, with(bleu, {"ref.txt", "--test", "boot"}),
                 "--test: unknown value 'boot'; one of: bootstrap, randomization");
  expect_mistake(here, {"bleu", "--hypotheses", "-", "--references", "-"},
                 "- is given twice; stdin can be read once");
}

TEST(ScoreCommand, ScoresLabels) {
  const Workspace here;
  here.write("truth.txt", "sport\nsport\npolitics\npolitics\nweather\n");
  here.write("out.txt", "sport\nweather\npolitics \npolitics\nweather\n");
  const auto scores =
      scored(here, {"classification", "--predictions", "out.txt", "--references", "truth.txt"});
  EXPECT_EQ(scores.at("samples"), 5);
  EXPECT_DOUBLE_EQ(scores.at("accuracy").get<double>(), 0.8);
  EXPECT_EQ(scores.at("labels"), json({"politics", "sport", "weather"}));
  EXPECT_EQ(scores.at("confusion"), json({{2, 0, 0}, {0, 1, 1}, {0, 0, 1}}));
  EXPECT_DOUBLE_EQ(scores.at("macro").at("f1").get<double>(), (1 + 2.0 / 3 + 2.0 / 3) / 3);
  EXPECT_EQ(scores.at("classes")[1].at("label"), "sport");
  EXPECT_EQ(scores.at("classes")[1].at("support"), 2);
  const auto some = scored(here, {"classification", "--predictions", "out.txt", "--references",
                                  "truth.txt", "--labels", "sport"});
  EXPECT_DOUBLE_EQ(some.at("macro").at("recall").get<double>(), 0.5);
  EXPECT_EQ(some.at("classes").size(), 1u);
  const auto table = here.run(
      {"score", "classification", "--predictions", "out.txt", "--references", "truth.txt"});
  EXPECT_TRUE(table.out.starts_with("accuracy           0.8000\n")) << table.out;
  for (const auto* word : {"precision", "politics", "macro", "weighted", "0.6667"})
    EXPECT_NE(table.out.find(word), std::string::npos) << word << "\n" << table.out;
}

TEST(ScoreCommand, ScoresTheLinesOfAFileHoweverItIsStored) {
  const Workspace here;
  here.write("truth.txt", "pos\nneg\npos\nneg\n");
  const auto of = [&](const std::string& bytes) {
    here.write("out.txt", bytes);
    return scored(here,
                  {"classification", "--predictions", "out.txt", "--references", "truth.txt"});
  };
  const std::string mark = "\xef\xbb\xbf";
  const auto expected = of("pos\nneg\npos\npos\n");
  EXPECT_EQ(expected.at("accuracy"), 0.75);
  EXPECT_EQ(of(mark + "pos\nneg\npos\npos\n"), expected);
  EXPECT_EQ(of("pos\r\nneg\r\npos\r\npos"), expected);
  EXPECT_EQ(of(mark + "pos\r\nneg\r\npos\r\npos\r\n"), expected);
  EXPECT_EQ(of(corpus::gzipped("pos\nneg\npos\npos\n")), expected);
  here.write("out.txt", std::string("pos\nn\0g\npos\npos\n", 15));
  expect_mistake(here, {"classification", "--predictions", "out.txt", "--references", "truth.txt"},
                 "out.txt:2: column 2 is a NUL byte; a text file has none; is this a binary file, "
                 "or UTF-16?");
}

TEST(ScoreCommand, ScoresNumbers) {
  const Workspace here;
  here.write("truth.txt", "0\n1.5\n3.2\n4.8\n");
  here.write("out.txt", "0.5\n1\n2.9\n5\n");
  const auto scores = scored(here, {"regression", "--predictions", "out.txt", "--references",
                                    "truth.txt", "--threshold", "3"});
  EXPECT_NEAR(scores.at("pearson").get<double>(), 0.9755464765710509, 1e-12);
  EXPECT_DOUBLE_EQ(scores.at("spearman").get<double>(), 1);
  EXPECT_DOUBLE_EQ(scores.at("kendall_tau_b").get<double>(), 1);
  EXPECT_NEAR(scores.at("mean_squared_error").get<double>(), 0.1575, 1e-12);
  EXPECT_NEAR(scores.at("mean_absolute_error").get<double>(), 0.375, 1e-12);
  EXPECT_NEAR(scores.at("f1_at_threshold").get<double>(), 2.0 / 3, 1e-12);
  here.write("flat.txt", "1\n1\n1\n1\n");
  const auto flat =
      scored(here, {"regression", "--predictions", "flat.txt", "--references", "truth.txt"});
  EXPECT_TRUE(flat.at("pearson").is_null());
  EXPECT_FALSE(flat.contains("threshold"));
  const auto text =
      here.run({"score", "regression", "--predictions", "flat.txt", "--references", "truth.txt"});
  EXPECT_NE(text.out.find("pearson              –\n"), std::string::npos) << text.out;
}

TEST(ScoreCommand, AnswersMistakesInLabelsAndNumbersWithOneLine) {
  const Workspace here;
  here.write("a.txt", "1\n2\n");
  here.write("gap.txt", "1\n \n");
  here.write("word.txt", "1\ntwo\n");
  here.write("many.txt", [] {
    std::string lines;
    for (int i = 0; i < 1001; ++i) lines += std::to_string(i) + "\n";
    return lines;
  }());
  const Arguments classes = {"classification", "--references", "a.txt", "--predictions"};
  const auto with = [](Arguments words, const Arguments& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  expect_mistake(here, with(classes, {"gap.txt"}),
                 "gap.txt:2: there is no label; give one on each line");
  expect_mistake(here, with(classes, {"a.txt", "--labels", "3"}),
                 "--labels: '3' occurs in neither file; one of: 1, 2");
  expect_mistake(here, {"classification", "--references", "many.txt", "--predictions", "many.txt"},
                 "many.txt: 1001 different labels; at most 1000; for numbers take `longbow score "
                 "regression`");
  expect_mistake(here, {"regression", "--references", "a.txt", "--predictions", "word.txt"},
                 "word.txt:2: 'two' is not a number; give one on each line");
  expect_mistake(here, {"regression", "--references", "gap.txt", "--predictions", "a.txt"},
                 "gap.txt:2: there is no number; give one on each line");
}

// Three questions; with `impossible`, the last has no answer, as in SQuAD 2.0.
std::string questions(const std::string& version, bool impossible) {
  const std::string flag = impossible ? R"(, "is_impossible": true)" : "";
  return R"({"version": ")" + version +
         R"(", "data": [{"title": "t", "paragraphs": [{"context": "c", "qas": [
      {"id": "1", "question": "?", "answers": [{"text": "the cat", "answer_start": 0}]},
      {"id": "2", "question": "?", "answers": [{"text": "서울특별시", "answer_start": 0},
                                               {"text": "서울", "answer_start": 0}]},
      {"id": "3", "question": "?", "answers": [)" +
         (impossible ? "" : R"({"text": "x", "answer_start": 0})") + "]" + flag + "}]}]}]}";
}

TEST(ScoreCommand, ScoresAnswers) {
  const Workspace here;
  here.write("v1.json", questions("1.1", false));
  here.write("v2.json", questions("v2.0", true));
  here.write("out.json", R"({"1": "Cat!", "2": "서울 특별시", "3": ""})");
  const auto first = scored(here, {"answers", "--predictions", "out.json", "--data", "v1.json"});
  EXPECT_EQ(first.at("rules"), "squad1");
  EXPECT_NEAR(first.at("exact_match").get<double>(), 100.0 / 3, 1e-9);
  EXPECT_NEAR(first.at("f1").get<double>(), (100 + 200.0 / 3) / 3, 1e-9);
  const auto second = scored(here, {"answers", "--predictions", "out.json", "--data", "v2.json"});
  EXPECT_EQ(second.at("rules"), "squad2");
  EXPECT_NEAR(second.at("exact_match").get<double>(), 200.0 / 3, 1e-9);
  EXPECT_EQ(second.at("unanswerable").at("exact_match"), 100);
  EXPECT_EQ(second.at("answerable").at("questions"), 2);
  const auto korean =
      here.run({"score", "answers", "--predictions", "out.json", "--data", "v1.json", "--korquad"});
  EXPECT_EQ(korean.out, "korquad       exact match 0.00, F1 55.56 (3 questions)\n");
}

TEST(ScoreCommand, ScoresAnswersInFilesThatArePackedOrHaveAByteOrderMark) {
  const Workspace here;
  const std::string out = R"({"1": "Cat!", "2": "서울", "3": ""})", mark = "\xef\xbb\xbf";
  here.write("v1.json", questions("1.1", false));
  here.write("out.json", out);
  here.write("marked.json", mark + questions("1.1", false));
  here.write("marked_out.json", mark + out);
  here.write("packed.json", corpus::xzipped(questions("1.1", false)));
  here.write("packed_out.json", corpus::gzipped(out));
  const auto of = [&](const std::string& data, const std::string& predictions) {
    return scored(here, {"answers", "--predictions", predictions, "--data", data});
  };
  const auto expected = of("v1.json", "out.json");
  EXPECT_EQ(expected.at("questions"), 3);
  EXPECT_EQ(of("marked.json", "marked_out.json"), expected);
  EXPECT_EQ(of("packed.json", "packed_out.json"), expected);
}

TEST(ScoreCommand, ScoresAsManyQuestionsAsSquadsTrainingFileHas) {
  const Workspace here;
  std::string asked, predicted;
  for (int i = 0; i < 130'000; ++i) {
    const auto id = std::to_string(i), comma = std::string(i > 0 ? "," : "");
    asked += comma + R"({"id":")" + id + R"(","question":"?","answers":[{"text":"x",)" +
             R"("answer_start":0}],"is_impossible":false})";
    predicted += comma + "\"" + id + R"(":"x")";
  }
  here.write("data.json", R"({"data":[{"title":"t","paragraphs":[{"qas":[)" + asked +
                              R"(],"context":"c"}]}],"version":"v2.0"})");
  here.write("out.json", "{" + predicted + "}");
  const auto scores = scored(here, {"answers", "--predictions", "out.json", "--data", "data.json"});
  EXPECT_EQ(scores.at("questions"), 130'000);
  EXPECT_EQ(scores.at("exact_match"), 100);
}

TEST(ScoreCommand, CountsQuestionsWithoutPredictionAsZero) {
  const Workspace here;
  here.write("data.json", questions("KorQuAD_v1.0_dev", false));
  here.write("out.json", R"({"1": "the cat", "7": "dog"})");
  const auto outcome =
      here.run({"score", "answers", "--predictions", "out.json", "--data", "data.json"});
  EXPECT_EQ(outcome.out, "squad1        exact match 33.33, F1 33.33 (3 questions)\n");
  EXPECT_EQ(outcome.err,
            "warning: data.json: is scored by SQuAD's rules; KorQuAD's are --korquad\n"
            "warning: out.json: 2 of 3 questions have no prediction and score 0\n"
            "warning: out.json: 1 of 2 predictions are for none of the questions\n");
}

TEST(ScoreCommand, AnswersMistakesInQuestionsWithOneLine) {
  const Workspace here;
  here.write("data.json", questions("1.1", false));
  here.write("none.json", R"({"version": "1.1", "data": []})");
  here.write("other.json", "{\n\"data\": [\n{\"paragraphs\": 1}]}");
  here.write("list.json", "[]");
  here.write("out.json", R"({"9": "x"})");
  const auto refused = [&](const std::string& predictions, const std::string& data,
                           const std::string& line) {
    expect_mistake(here, {"answers", "--predictions", predictions, "--data", data}, line);
  };
  refused("out.json", "data.json",
          "out.json: none of its ids is in data.json; give the predictions for this data");
  refused("list.json", "data.json", "list.json: is not a map; give {\"id\": \"answer\", …}");
  refused("out.json", "none.json",
          "none.json: has no questions; give a file of the form of SQuAD's");
  refused("out.json", "out.json",
          "out.json:1: there is no 'data'; give a file of the form of SQuAD's");
  refused("out.json", "other.json",
          "other.json:3: 'paragraphs' is not a list; give a file of the form of SQuAD's");
  const auto refused_question = [&](const std::string& question, const std::string& what) {
    here.write("q.json", "{\"data\": [{\"paragraphs\": [{\"qas\":\n[" + question + "]}]}]}");
    refused("out.json", "q.json", "q.json:2: " + what + "; give a file of the form of SQuAD's");
  };
  refused_question(R"({"answers": []})", "there is no 'id'");
  refused_question(R"({"id": null, "answers": []})", "'id' is not a string");
  refused_question(R"({"id": "1", "answers": [{"answer_start": 0}]})", "there is no 'text'");
  refused_question("[]", "an object is expected");
  here.write("broken.json", "{\"data\": [],}");
  refused("out.json", "broken.json",
          "broken.json:1: not valid JSON: a key in double quotes is expected");
}

}  // namespace
}  // namespace longbow::cli
