#pragma once
#include <string>
#include <vector>

namespace longbow::cli {

// `longbow WORD …` as a shell takes it: words that mean something to it stand in quotes.
std::string command_line(const std::vector<std::string>& words);

}  // namespace longbow::cli
