// Lines that are typed at a terminal: each is answered before the next one is read.
#include "longbow/cli/dialogue.h"

#include "tests/cli/asked.h"
#include "tests/cli/terminal.h"

namespace longbow::cli {
namespace {

const std::string kTinyListOps =
    "task: listops\n"
    "data: {listops: {train: 60, valid: 8, test: 8, min_length: 5, max_length: 30}}\n"
    "model: {width: 16, layers: 1, attention: linear}\n"
    "train: {max_steps: 3, batch_size: 4, bucket: 8, threads: 0}\n";

TEST(Dialogue, PredictAnswersEachLineAndGoesOnAfterAMistake) {
  const Workspace here;
  train_run(here, "run", kTinyListOps);
  const Terminal terminal;
  if (!terminal.is_there()) GTEST_SKIP() << "no terminals can be made here";
  Running program(here.folder(), {"predict", "run"}, ".stdout", terminal.reading());
  terminal.type("[MAX 2 9 ]\n");
  ASSERT_TRUE(wait_for_lines(here, program, ".stdout", 2)) << "no answer before the end";
  terminal.type("[MAX 2 x ]\n\n[MED 1 ]\n");
  ASSERT_TRUE(wait_for_lines(here, program, ".stdout", 3));
  std::string digits = "[MAX";
  for (int i = 0; i < 40; ++i) digits += " 1";
  terminal.type(digits + " ]\n");
  terminal.end();
  const auto outcome = program.finish();
  EXPECT_EQ(outcome.code, 0);
  const auto lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 3u) << outcome.out;
  EXPECT_EQ(lines[0], "input\tclass\tlabel\tprobability");
  EXPECT_TRUE(lines[1].starts_with("[MAX 2 9 ]\t")) << lines[1];
  EXPECT_TRUE(lines[2].starts_with("[MED 1 ]\t")) << lines[2];
  for (const auto* part :
       {"classification on listops: type a sequence of up to 32 tokens and press Enter; Ctrl-D "
        "ends.\nTokens have blanks between them: ",
        "> stdin:2: token 3, 'x', is not a symbol of the data; ",
        "> stdin:3: there are no tokens; a line is one input\n",
        "> stdin:5: 42 tokens, but the model holds 32; shorten the line, or train with a larger "
        "model.max_length\n"})
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
}

TEST(Dialogue, PredictStopsAtItsLimit) {
  const Workspace here;
  train_run(here, "run", kTinyListOps);
  const Terminal terminal;
  if (!terminal.is_there()) GTEST_SKIP() << "no terminals can be made here";
  Running program(here.folder(), {"predict", "run", "--limit", "2", "--json"}, ".stdout",
                  terminal.reading());
  terminal.type("[MAX 2 9 ]\n[MED 1 ]\n[MIN 1 ]\n");
  const auto outcome = program.finish();
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(objects_of(outcome.out).size(), 2u) << outcome.out;
}

TEST(Dialogue, GenerateAndTranslateAnswerEachLineToo) {
  const Workspace here;
  const std::string rest =
      "model: {width: 16, layers: 1, attention: linear}\n"
      "train: {max_steps: 2, batch_size: 8, bucket: 4, threads: 0}\n";
  train_run(here, "markov",
            "task: markov\ndata: {markov: {train: 40, valid: 8, test: 8, words: 8, length: 12}}\n" +
                rest);
  train_run(here, "reverse",
            "task: reverse\ndata: {reverse: {train: 40, valid: 8, test: 8, length: 6}}\n" + rest);
  {
    const Terminal terminal;
    if (!terminal.is_there()) GTEST_SKIP() << "no terminals can be made here";
    Running program(here.folder(), {"generate", "markov", "--file", "-", "--max-length", "3"},
                    ".stdout", terminal.reading());
    terminal.type("w0 w1\n");
    ASSERT_TRUE(wait_for_lines(here, program, ".stdout", 1)) << "no answer before the end";
    terminal.type("nothing\nw2\n");
    terminal.end();
    const auto outcome = program.finish();
    const auto lines = lines_of(outcome.out);
    ASSERT_EQ(lines.size(), 2u) << outcome.out;
    EXPECT_TRUE(lines[0].starts_with("w0 w1 w"));
    EXPECT_TRUE(lines[1].starts_with("w2 w"));
  }
  const Terminal terminal;
  if (!terminal.is_there()) GTEST_SKIP() << "no terminals can be made here";
  Running program(here.folder(), {"translate", "reverse", "--n-best", "1"}, ".stdout",
                  terminal.reading());
  terminal.type("s0 s1\n");
  ASSERT_TRUE(wait_for_lines(here, program, ".stdout", 1)) << "no answer before the end";
  terminal.end();
  EXPECT_EQ(program.finish().code, 0);
}

}  // namespace
}  // namespace longbow::cli
