#pragma once
// Tables of text, built once and printed by the page, the Markdown and the console alike.
#include <optional>
#include <string>
#include <vector>

#include "longbow/report/table/table.h"

namespace longbow::reporting {

// How a cell looks. The last four are what became of one that has no score.
enum class Tone { plain, best, muted, pending, refused, failed, out_of_memory };
Tone tone_of(const std::string& status);

struct GridCell {
  std::string text;
  std::optional<double> value{};  // what a sort compares; without one, the text is compared
  Tone tone = Tone::plain;
  std::string hint{};  // more, for a reader who points at it
};

struct Grid {
  std::string title, note;
  std::vector<std::string> columns;
  std::vector<std::vector<GridCell>> rows;
  size_t text_columns = 1;  // the leading columns hold names, the others numbers
};

Grid overview_grid(const Table& table);
Grid task_grid(const Table& table, const std::string& task);
Grid failure_grid(const Table& table);

// One cell for each kind of cell without a score that needs an explanation, which is its hint.
std::vector<GridCell> states_of(const Grid& grid);
std::string state_sentence(const Grid& grid);  // "OOM: ran out of memory."; empty without any

// "Scored on test; the checkpoint was chosen on valid.", and where a mechanism could not be put.
std::string scoring_sentence(const Table& table, const std::string& task);

void mark_best(Grid& grid, size_t column,
               bool lowest);  // no mark when fewer than two rows have a value

std::string console_grid(const Grid& grid);  // for a terminal, every column as wide as it needs

}  // namespace longbow::reporting
