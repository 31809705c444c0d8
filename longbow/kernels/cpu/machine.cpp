#include "longbow/kernels/cpu/machine.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace longbow::kernels {
namespace {

Instructions best() {
#ifdef __x86_64__
  if (Avx512::is_here()) return Instructions::avx512;
  if (Avx2::is_here()) return Instructions::avx2;
#endif
  return Instructions::portable;
}

Instructions chosen() {
  const char* const text = std::getenv("ATEN_CPU_CAPABILITY");
  const std::string_view wanted = text ? text : "";
  if (wanted == "default") return Instructions::portable;
  return wanted == "avx2" ? std::min(best(), Instructions::avx2) : best();
}

}  // namespace

Instructions instructions_here() {
  static const Instructions here = chosen();
  return here;
}

}  // namespace longbow::kernels
