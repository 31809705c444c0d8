#include "longbow/cli/device.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "longbow/core/error.h"
#include "tests/support/tensor.h"

namespace longbow::cli {
namespace {

TEST(Device, IsTheProcessorOrAGpuByNumber) {
  EXPECT_EQ(parse_device("cpu"), c10::Device(c10::kCPU));
  if (!at::hasCUDA()) GTEST_SKIP() << "no GPU here";
  EXPECT_EQ(parse_device("cuda"), c10::Device("cuda:0"));
  EXPECT_EQ(parse_device("cuda:0"), c10::Device("cuda:0"));
}

TEST(Device, AnythingElseIsAMistake) {
  for (const std::string text : {"gpu", "cuda:", "cuda:x", "CPU", ""})
    EXPECT_EQ(error_of([&] { parse_device(text); }),
              "--device: unknown device '" + text + "'; one of: cpu, cuda, cuda:1");
}

TEST(Device, ACudaThatIsNotThereSaysHowToGetOne) {
  if (at::hasCUDA()) GTEST_SKIP() << "there is a GPU here";
  EXPECT_EQ(error_of([] { parse_device("cuda:1"); }),
            "--device: no CUDA device can be used here; build with ./check --cuda on a machine "
            "with a GPU, or use cpu");
}

TEST(Device, TheMachineHasAName) {
  EXPECT_NE(machine_of(c10::kCPU).find(" cores, "), std::string::npos);
}

}  // namespace
}  // namespace longbow::cli
