#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

// The rules of the repository's shape, as functions of a tree in memory: each returns one line per
// violation.
namespace longbow::layout {

using Tree = std::map<std::string, std::string>;              // path from the root -> contents
using Violations = std::vector<std::string>;                  // "path:line: what"
using Layers = std::map<std::string, std::set<std::string>>;  // layer -> every layer it may include

Tree read_tree(
    const std::string& root);          // without .git and the root's folders that .gitignore names
Layers read_layers(const Tree& tree);  // from the longbow_layer(...) calls of CMakeLists.txt

// Layer -> its rooms, of which each may include those before it; from the same calls.
std::map<std::string, std::vector<std::string>> read_rooms(const Tree& tree);

Violations includes_against_the_layers(const Tree& tree);
Violations includes_against_the_rooms(const Tree& tree);
// A header and its source are one node; nodes of one layer may not include each other in a circle.
Violations circular_includes(const Tree& tree);
Violations wide_torch_headers(const Tree& tree);
// The tables: mechanisms, data sets and objectives, one row a file.
Violations rows_without_test_or_page(const Tree& tree);
Violations rows_that_share_files(const Tree& tree);
Violations tests_without_source(const Tree& tree);
Violations long_files(const Tree& tree);
Violations ignored_comparisons(const Tree& tree);
Violations todos_without_issue(const Tree& tree);
Violations nameless_folders(const Tree& tree);
Violations machine_paths(const Tree& tree);
Violations parallel_pragmas(const Tree& tree);

}  // namespace longbow::layout
