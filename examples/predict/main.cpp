// Classifies the lines of stdin with the model in a run folder: predict runs/topic < lines.txt
#include <iostream>

#include "longbow/predict/trained_model.h"

int main(int count, char** words) try {
  auto model = longbow::open_model(count > 1 ? words[1] : ".");
  for (std::string line; std::getline(std::cin, line);)
    for (const auto& said : model.predict({line}))
      std::cout << said.label << "\t" << said.probability << "\t" << line << "\n";
} catch (const longbow::UserError& error) {
  std::cerr << error.what() << "\n";
  return 2;
}
