#include "longbow/cli/threads.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "tests/cli/program.h"

namespace longbow::cli {
namespace {

// A variable of the programs that the test starts, as it was before when the test ends.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const auto* found = std::getenv(name)) before_ = found;
    if (value)
      setenv(name, value, 1);
    else
      unsetenv(name);
  }
  ~Variable() {
    if (before_)
      setenv(name_, before_->c_str(), 1);
    else
      unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

nlohmann::json doctor(const Arguments& more = {}) {
  Arguments words = {"doctor", "--json"};
  words.insert(words.end(), more.begin(), more.end());
  return nlohmann::json::parse(Workspace().run(words).out);
}

TEST(Threads, WaitPassivelyUnlessTheEnvironmentSaysHow) {
  const Variable policy("OMP_WAIT_POLICY", nullptr), count("GOMP_SPINCOUNT", nullptr),
      time("KMP_BLOCKTIME", nullptr);
  EXPECT_EQ(doctor().at("waiting"), "OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=1000");
  const Variable spins("GOMP_SPINCOUNT", "500");
  EXPECT_EQ(doctor().at("waiting"), "GOMP_SPINCOUNT=500");
  const Variable active("OMP_WAIT_POLICY", "active");
  EXPECT_EQ(doctor().at("waiting"), "OMP_WAIT_POLICY=active GOMP_SPINCOUNT=500");
}

// What the runtime itself has read, which is more than what the environment says later.
TEST(Threads, TheRuntimeKnowsThatTheyWaitPassively) {
  const Variable policy("OMP_WAIT_POLICY", nullptr), count("GOMP_SPINCOUNT", nullptr),
      time("KMP_BLOCKTIME", nullptr), display("OMP_DISPLAY_ENV", "verbose");
  const auto told = Workspace().run({"doctor"}).err;
  if (told.find("GOMP_SPINCOUNT") == std::string::npos) GTEST_SKIP() << "not GNU's runtime";
  EXPECT_NE(told.find("GOMP_SPINCOUNT = '1000'"), std::string::npos) << told;
}

TEST(Threads, AreAsManyAsTheFlagSays) {
  EXPECT_EQ(doctor().at("threads"), "1") << "as OMP_NUM_THREADS of these tests";
  EXPECT_EQ(doctor({"--threads", "3"}).at("threads"), "3");
}

TEST(Threads, AreAFlagOfEveryCommandThatComputes) {
  const Workspace here;
  for (const auto* command :
       {"train", "eval", "generate", "translate", "predict", "arena", "bench", "maps"})
    EXPECT_NE(here.run({command, "--help"}).out.find("--threads"), std::string::npos) << command;
}

TEST(Threads, ACountThatCannotBeIsRefused) {
  const Workspace here;
  const auto error = [&](const std::string& count) {
    const auto outcome = here.run({"doctor", "--threads", count});
    EXPECT_EQ(outcome.code, 2) << count;
    return outcome.err;
  };
  EXPECT_EQ(error("0"),
            "longbow: --threads: '0' is not a whole number of at least 1; see --help\n");
  EXPECT_EQ(error("two"),
            "longbow: --threads: 'two' is not a whole number of at least 1; see --help\n");
  EXPECT_EQ(error("5000"), "longbow: --threads: '5000' is more than 4096; see --help\n");
}

}  // namespace
}  // namespace longbow::cli
