#include "longbow/cli/threads.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace longbow::cli {
namespace {

// Each of them decides how long a thread spins, so the user's own has the last word.
constexpr std::array<const char*, 3> kSettings = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT",
                                                  "KMP_BLOCKTIME"};

int64_t given = 0;  // of --threads

bool is_setting(std::string_view variable) {
  return std::any_of(kSettings.begin(), kSettings.end(), [&](std::string_view name) {
    return variable.starts_with(name) && variable.substr(name.size()).starts_with('=');
  });
}

// Of this process, or empty. `ld.so PROGRAM` runs the loader, which cannot take the program's
// place.
std::string own_file() {
  std::array<char, 4096> path{};
  const auto length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0 || static_cast<size_t>(length) == path.size()) return "";
  const std::string file(path.data(), static_cast<size_t>(length));
  const auto name = file.substr(file.rfind('/') + 1);
  return name.starts_with("ld-") || name.starts_with("ld.so") ? "" : file;
}

}  // namespace

void wait_passively(int, char** argv, char** environment) {
  static char passive[] = "OMP_WAIT_POLICY=passive", moment[] = "GOMP_SPINCOUNT=1000";
  std::vector<char*> variables;
  for (; *environment; ++environment) {
    if (is_setting(*environment)) return;
    variables.push_back(*environment);
  }
  variables.insert(variables.end(), {passive, moment, nullptr});
  if (const auto file = own_file(); !file.empty())
    ::execve(file.c_str(), argv, variables.data());  // where this fails, threads spin
}

std::string wait_setting() {
  std::string all;
  for (const auto* name : kSettings)
    if (const auto* value = std::getenv(name))
      all += (all.empty() ? "" : " ") + std::string(name) + "=" + value;
  return all.empty() ? "as the OpenMP runtime does" : all;
}

void set_threads(int64_t count) {
  at::set_num_threads(static_cast<int>(count));
  given = count;
}

int64_t given_threads() {
  return given;
}

}  // namespace longbow::cli
