#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace longbow::cli {
namespace {

TEST(DoctorCommand, TellsWhatTheProgramWasBuiltWith) {
  const Workspace here;
  const auto plain = here.run({"doctor"});
  EXPECT_EQ(plain.code, 0);
  const auto facts = nlohmann::json::parse(here.run({"doctor", "--json"}).out);
  for (const auto* key : {"longbow", "commit", "compiler", "LibTorch", "machine", "threads",
                          "waiting", "CUDA", "mechanisms"}) {
    ASSERT_TRUE(facts.contains(key)) << key;
    EXPECT_FALSE(facts.at(key).get<std::string>().empty()) << key;
    EXPECT_NE(plain.out.find(key), std::string::npos) << key;
  }
}

}  // namespace
}  // namespace longbow::cli
