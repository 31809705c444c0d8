// What every row and variant promises, pinned: to promise less is a change that a reader sees.
#include <fmt/format.h>

#include <cstdlib>

#include "longbow/core/fields.h"
#include "longbow/core/file.h"
#include "tests/attention/laws.h"

namespace longbow {
namespace {

const std::string kFile = LONGBOW_SOURCE_DIR "/tests/attention/promises.txt";

std::string table() {
  constexpr auto kLine =
      "{:28} {:9} {:7} {:13} {:5} {:7} {:6} {:10} {:6} {:>4} {:>6} {:11} {:>11} {:>13} {}\n";
  auto text = fmt::format(kLine, "subject", "padding", "future", "bidirectional", "cross",
                          "globals", "decode", "positional", "rotary", "time", "memory", "launches",
                          "causal time", "causal memory", "causal launches");
  const auto yes = [](bool value) { return value ? "yes" : "-"; };
  const auto exponent = [](double value) { return fmt::format("{:g}", value); };
  for (const auto& subject : subjects()) {
    const auto& p = subject.promises;
    const auto all = [&](const std::string& cell) { return p.bidirectional ? cell : "-"; };
    const auto causal = [&](const std::string& cell) {
      return p.future != Future::refused ? cell : "-";
    };
    text += fmt::format(kLine, subject.name, name_of(p.padding), name_of(p.future),
                        yes(p.bidirectional), yes(p.cross), yes(p.globals), yes(p.decode),
                        yes(p.positional), yes(p.rotary), all(exponent(p.time)),
                        all(exponent(p.memory)), all(name_of(p.launches)),
                        causal(exponent(p.causal_time)), causal(exponent(p.causal_memory)),
                        causal(name_of(p.causal_launches)));
  }
  return text;
}

TEST(Promises, AreThoseOfTheTable) {
  if (std::getenv("LONGBOW_UPDATE_PROMISES")) write_file(kFile, table());
  EXPECT_EQ(read_file(kFile), table())
      << "to write the table: LONGBOW_UPDATE_PROMISES=1 build/dev/longbow_attention_test "
         "--gtest_filter=Promises.AreThoseOfTheTable";
}

}  // namespace
}  // namespace longbow
