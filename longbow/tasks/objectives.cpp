#include "longbow/tasks/task.h"

namespace longbow {

const Objective& find_objective(const std::string& name, const Place& place) {
  std::vector<std::string> known;
  for (const auto& objective : objectives()) {
    if (objective.name == name) return objective;
    known.push_back(objective.name);
  }
  throw UserError(place, "unknown objective '" + name + "'", suggest(name, known));
}

}  // namespace longbow
