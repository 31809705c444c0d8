#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/headeronly/version.h>

#include "longbow/attention/mechanism.h"
#include "longbow/cli/columns.h"
#include "longbow/cli/commands.h"
#include "longbow/cli/device.h"
#include "longbow/cli/threads.h"
#include "longbow/core/version.h"

namespace longbow::cli {

int run(const DoctorCommand& command) {
#ifdef LONGBOW_CUDA
  const std::string cuda = at::hasCUDA() ? "built in, " + machine_of(c10::Device("cuda:0"))
                                         : "built in, but no GPU can be used here";
#else
  const std::string cuda = "not built in; ./check --cuda builds it where nvcc and a GPU are";
#endif
  const std::vector<std::pair<std::string, std::string>> facts = {
      {"longbow", version()},
      {"commit", commit()},
      {"compiler", compiler()},
      {"LibTorch", TORCH_VERSION},
      {"machine", machine()},
      {"vector units", at::get_cpu_capability()},
      {"threads", std::to_string(at::get_num_threads())},
      {"waiting", wait_setting()},
      {"CUDA", cuda},
      {"mechanisms", std::to_string(mechanisms().size())},
  };
  Node json = Node::map();
  for (const auto& [name, fact] : facts) json[name] = Node::string(fact);
  if (command.json)
    fmt::print("{}\n", to_json(json, 2));
  else
    fmt::print("{}", two_columns(facts));
  return 0;
}

}  // namespace longbow::cli
