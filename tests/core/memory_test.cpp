#include "longbow/core/memory.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longbow/core/file.h"
#include "longbow/core/folder.h"
#include "tests/core/support.h"

namespace longbow {
namespace {

// A machine with files of its own.
class Machine {
 public:
  void write(const std::string& file, const std::string& contents) const {
    const auto path = folder_ / file;
    make_folder(path.parent_path().string());
    write_file(path.string(), contents);
  }
  double available() const { return available_memory(folder_.string()); }

 private:
  std::filesystem::path folder_ = scratch();
};

TEST(Memory, IsWhatTheSystemCanSpareWithItsSwap) {
  const Machine machine;
  machine.write("proc/meminfo",
                "MemTotal:       16000 kB\nMemFree:          100 kB\nMemAvailable:    8000 kB\n"
                "SwapTotal:       500 kB\nSwapFree:         200 kB\n");
  EXPECT_EQ(machine.available(), 8200 * 1024);
}

TEST(Memory, IsWhatTheControlGroupsLeave) {
  const Machine machine;
  machine.write("proc/meminfo", "MemAvailable:    8000 kB\n");
  machine.write("proc/self/cgroup", "0::/outer/inner\n");
  machine.write("sys/fs/cgroup/outer/memory.max", "5000000\n");
  machine.write("sys/fs/cgroup/outer/memory.current", "3000000\n");
  machine.write("sys/fs/cgroup/outer/memory.stat", "anon 2500000\ninactive_file 400000\n");
  machine.write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  machine.write("sys/fs/cgroup/outer/inner/memory.current", "3000000\n");
  EXPECT_EQ(machine.available(), 2400000);
  machine.write("sys/fs/cgroup/outer/inner/memory.max", "2900000\n");
  EXPECT_EQ(machine.available(), 0);
}

TEST(Memory, IsNotLimitedByWhatIsUnknown) {
  EXPECT_TRUE(std::isinf(Machine().available()));
}

TEST(Memory, OfThisMachineIsSome) {
  EXPECT_GT(available_memory(), 1 << 20);
}

}  // namespace
}  // namespace longbow
