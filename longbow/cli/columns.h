#pragma once
#include <string>
#include <utility>
#include <vector>

namespace longbow::cli {

// A name and what is said of it. What is said begins in one column and goes on below itself, so
// that no line is longer than 100 characters; `mark` is written before each of its lines. A row
// without anything said is its name alone.
using NamedRows = std::vector<std::pair<std::string, std::string>>;
std::string two_columns(const NamedRows& rows, const std::string& mark = "");

}  // namespace longbow::cli
