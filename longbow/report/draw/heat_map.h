#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace longbow::reporting {

struct HeatMap {
  int64_t rows = 0, columns = 0;
  std::vector<float> values = {};                              // row by row
  std::vector<std::string> row_names = {}, column_names = {};  // of each, or empty
  std::string row_title = {}, column_title = {};               // what they all are: "queries"
};

// Maps beside and below each other: `maps` row by row, as many as there are labels of both. A map
// without values leaves its place free.
struct HeatGrid {
  std::string title, description;
  std::vector<std::string> row_labels, column_labels;
  std::vector<HeatMap> maps;
};

// One SVG that needs no style sheet. Every map has its own scale, from white for its smallest value
// to red for its largest, which a bar beside it shows; a value that is not finite is left blank. Of
// a map with more rows or columns than a picture shows, each cell is the mean of a patch. Names are
// beside the rows of the leftmost map and below the columns of each, where there are few enough to
// be read; titles of the axes are in the same places.
std::string heat_grid(const HeatGrid& grid);

}  // namespace longbow::reporting
