#pragma once
// What users get wrong, and the one line that the program answers with.
#include "tests/cli/program.h"

namespace longbow::cli {

struct Mistake {
  std::string name;
  Arguments arguments;
  std::string line;                  // all of stderr, after the name of the program
  std::string config = kTinyRecall;  // run.yaml
};

// Over all commands; the files that they name are written to the folder.
std::vector<Mistake> mistakes(const Workspace& here);

}  // namespace longbow::cli
