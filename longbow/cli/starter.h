#pragma once
// Configs to start from, which learn in about a minute on two cores: one for every data set and for
// every objective that no data set is made for.
#include <string>
#include <vector>

#include "longbow/core/config.h"

namespace longbow::cli {

struct Starter {
  std::string name;     // of the data set or the objective
  Node config;          // of a run
  std::string reaches;  // what comes of it: a score, and what to compare it with
};
const std::vector<Starter>& starters();

// By the name of a data set or of any objective; that of an objective which a data set is made for
// gives the starter of the data set. UserError with the nearest names when there is none.
const Starter& find_starter(const std::string& name);

}  // namespace longbow::cli
