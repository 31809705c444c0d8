#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace longbow::cli {
namespace {

Outcome trained(const Workspace& here, const std::string& attention) {
  here.write("run.yaml", replaced(replaced(kTinyRecall, "{name: linear}", attention), "layers: 1",
                                  "layers: 2"));
  return here.run(
      {"train", "run.yaml", "--out", "run", "--progress", "off", "--set", "train.max_steps=2"});
}

size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST(MapsCommand, DrawsEveryHeadOfEveryLayer) {
  const Workspace here;
  ASSERT_EQ(trained(here, "{name: linformer, rank: 4}").code, 0);
  const auto outcome = here.run({"maps", "run", "--out", "maps.svg"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "maps.svg\n");
  const auto svg = here.read("maps.svg");
  EXPECT_EQ(count(svg, "<rect"), 4u);  // two layers of two heads
  for (const auto* label : {">layers.0<", ">layers.1<", ">head 0<", ">head 1<"})
    EXPECT_EQ(count(svg, label), 1u) << label;
  EXPECT_EQ(count(svg, "linformer on recall"), 2u);
}

TEST(MapsCommand, SaysInOneLineWhatCannotBeDrawn) {
  const Workspace here;
  ASSERT_EQ(trained(here, "{name: linear}").code, 0);
  const auto error = [&](const Arguments& arguments) {
    const auto outcome = here.run(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_FALSE(here.has("maps.svg"));
    return outcome.err;
  };
  EXPECT_EQ(error({"maps", "run", "--out", "maps.svg"}),
            "longbow: run: its model forms no attention maps; softmax, linformer and others that "
            "weigh keys or slots do\n");
  EXPECT_EQ(error({"maps", "run", "--out", "maps.svg", "--sample", "99"}),
            "longbow: --sample: there is no sample 99; the split has 24\n");
}

}  // namespace
}  // namespace longbow::cli
