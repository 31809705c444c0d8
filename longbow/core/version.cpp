#include "longbow/core/version.h"

#include <unistd.h>

#include <fstream>
#include <thread>

namespace longbow {

std::string version() {
  return LONGBOW_VERSION;
}
std::string commit() {
  return LONGBOW_COMMIT;
}

std::string compiler() {
#ifdef __clang__
  return "clang " + std::to_string(__clang_major__) + "." + std::to_string(__clang_minor__) + "." +
         std::to_string(__clang_patchlevel__);
#else
  return std::string("g++ ") + __VERSION__;
#endif
}

std::string machine() {
  std::string processor = "unknown processor";
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);)
    if (line.rfind("model name", 0) == 0) {
      processor = line.substr(line.find(':') + 2);
      break;
    }
  const double gibibytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                           static_cast<double>(sysconf(_SC_PAGE_SIZE)) / (1024.0 * 1024 * 1024);
  return processor + ", " + std::to_string(std::thread::hardware_concurrency()) + " cores, " +
         std::to_string(static_cast<int>(gibibytes + 0.5)) + " GiB";
}

}  // namespace longbow
