#include "longbow/tasks/objectives.h"

namespace longbow {

const Objective& find_objective(const std::string& name, const Place& place) {
  std::vector<std::string> known;
  for (const auto& objective : objectives()) {
    if (objective.name == name) return objective;
    known.push_back(objective.name);
  }
  throw UserError(place, "unknown objective '" + name + "'", suggest(name, known));
}

void check_classes(const Splits& splits, const std::string& objective) {
  const bool classified = splits.classes > 0 && (splits.per_token || splits.train->targets() == 1);
  if (!classified)
    throw UserError("objective " + objective + ": the samples are not sequences with a class",
                    "leave objective out, to take what the data is made for");
  if (splits.train->has_second())
    throw UserError("objective " + objective + ": it reads one sequence, but the samples are pairs",
                    "objective: pairs reads both");
}

}  // namespace longbow
