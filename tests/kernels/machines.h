#pragma once
// The instruction sets of this machine, for tests that compare what was compiled for each.
#include "longbow/kernels/cpu/machine.h"

namespace longbow::kernels {

// body(name, M{}) for every M that can run here.
template <class Body>
void on_each_machine(const Body& body) {
  body("portable", Portable{});
#ifdef __x86_64__
  if (Avx2::is_here()) body("avx2", Avx2{});
  if (Avx512::is_here()) body("avx512", Avx512{});
#endif
}

}  // namespace longbow::kernels
