#pragma once
#include <string>
#include <vector>

namespace longbow::reporting {

struct HeatMap {
  int64_t rows = 0, columns = 0;
  std::vector<float> values = {};                              // row by row
  std::vector<std::string> row_names = {}, column_names = {};  // of each, or empty
};

// Maps beside and below each other: `maps` row by row, as many as there are labels of both. A map
// without values leaves its place free.
struct HeatGrid {
  std::string title, description;
  std::vector<std::string> row_labels, column_labels;
  std::vector<HeatMap> maps;
};

// One SVG that needs no style sheet. Every map has its own scale, from white for its smallest value
// to red for its largest; of a map with more rows or columns than a picture shows, each cell is the
// mean of a patch. Names stand beside the rows of the leftmost map and below the columns of each,
// where there are few enough to be read.
std::string heat_grid(const HeatGrid& grid);

}  // namespace longbow::reporting
