#include <gtest/gtest.h>
#ifdef LONGBOW_TEST_TORCH
#include <ATen/Context.h>

#include "longbow/core/leave.h"
#endif

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
#ifdef LONGBOW_TEST_TORCH
  // Deterministic algorithms fill uninitialised memory with NaN, so that a read before a write
  // shows.
  at::globalContext().setDeterministicAlgorithms(true, false);
  at::globalContext().setDeterministicFillUninitializedMemory(true);
  longbow::leave(RUN_ALL_TESTS());
#else
  return RUN_ALL_TESTS();
#endif
}
