#include "longbow/cli/command_line.h"

#include <gtest/gtest.h>

namespace longbow::cli {
namespace {

TEST(CommandLine, QuotesWhatAShellWouldChange) {
  EXPECT_EQ(command_line({"train", "runs/a-1.5", "--resume"}), "longbow train runs/a-1.5 --resume");
  EXPECT_EQ(command_line({"arena", "my arena.yaml", "--set", "a={b: 1}", "it's", ""}),
            "longbow arena 'my arena.yaml' --set 'a={b: 1}' 'it'\\''s' ''");
}

}  // namespace
}  // namespace longbow::cli
