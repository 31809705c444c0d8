#include <ATen/ATen.h>

#include "tests/ops/dropping.h"

namespace longbow {
namespace {

TEST(DropoutCuda, DropsWhatTheUniformNumbersSay) {
  expect_dropped_everywhere(at::Device("cuda:0"));
}

}  // namespace
}  // namespace longbow
