#include "tests/layout/layout.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>

namespace longbow::layout {
namespace {

namespace fs = std::filesystem;

// Tests that cover a law or a whole layer, so that no single source carries their name.
const std::map<std::string, std::string> kTestsOfSeveralSources = {
    {"fuzz_test", "mutates the inputs of every reader of its layer"},
    {"laws_test", "runs every law on every row of the table"},
    {"resume_test", "kills and resumes trainings of every kind"},
    {"laws_cuda_test", "the laws that need a GPU"},
    {"promises_test", "pins what every row of the table promises"},
    {"parity_test", "compares every row with what public implementations compute"},
    {"parity_collection_test", "the same for the cases outside of the repository"},
    {"broken_cuda_test", "the same for the laws that need a GPU"},
    {"kernels_cuda_test", "mechanisms that have kernels, with heads as wide as those take"},
    {"broken_test", "shows on a broken mixer that each law can fail"},
};

const std::vector<std::string> kNamelessFolders = {"utils", "util", "common", "misc", "helpers"};

bool starts_with(const std::string& text, const std::string& start) {
  return text.rfind(start, 0) == 0;
}

bool is_source(const std::string& path) {
  const auto extension = fs::path(path).extension();
  return extension == ".h" || extension == ".cpp" || extension == ".cu" || extension == ".cuh";
}

// The planted violations of this folder's own tests are text, not code.
bool is_planted(const std::string& path) {
  return starts_with(path, "tests/layout/");
}

std::string trimmed(const std::string& line) {
  const auto first = line.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::string> lines_of(const std::string& contents) {
  std::vector<std::string> lines;
  std::istringstream stream(contents);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string at(const std::string& path, size_t index) {
  return path + ":" + std::to_string(index + 1);
}

// One violation per line on which `complaint` has something to say, over the files that `applies`
// selects.
Violations each_line(const Tree& tree, const std::function<bool(const std::string& path)>& applies,
                     const std::function<std::string(const std::string& line)>& complaint) {
  Violations found;
  for (const auto& [path, contents] : tree) {
    if (is_planted(path) || !applies(path)) continue;
    const auto lines = lines_of(contents);
    for (size_t i = 0; i < lines.size(); ++i) {
      if (const auto what = complaint(lines[i]); !what.empty())
        found.push_back(at(path, i) + ": " + what);
    }
  }
  return found;
}

// The file that a line includes, without quotes or brackets, or "".
std::string included(const std::string& line) {
  const auto text = trimmed(line);
  if (!starts_with(text, "#")) return "";
  const auto directive = trimmed(text.substr(1));
  if (!starts_with(directive, "include")) return "";
  const auto open = directive.find_first_of("\"<");
  if (open == std::string::npos) return "";
  const auto close = directive.find_first_of("\">", open + 1);
  return directive.substr(open + 1, close - open - 1);
}

// "nn" of "longbow/nn/mask.h" and of "tests/nn/mask_test.cpp".
std::string layer_of(const std::string& path) {
  const auto first = path.find('/');
  if (first == std::string::npos) return "";
  const auto second = path.find('/', first + 1);
  if (second == std::string::npos) return "";
  return path.substr(first + 1, second - first - 1);
}

// A folder each of whose sources is a row: `x.cpp`, with more of it in `x/`.
struct Table {
  std::string row, folder, tests, pages;
  std::string home;    // of what two rows share
  std::string header;  // of the row's type, where it is in the same folder
  bool has_headers;    // a row may have one beside it, for its test
};
const std::vector<Table> kTables = {
    {"mechanism", "longbow/attention/", "tests/attention/", "docs/mechanisms/", "nn",
     "longbow/attention/mechanism.h", false},
    {"data set", "longbow/data/sets/", "tests/data/", "docs/data/", "data/readers", "", true},
    {"objective", "longbow/tasks/objectives/", "tests/tasks/", "docs/objectives/", "tasks", "",
     true},
};

// "h1d" of "longbow/attention/h1d.cpp" and of "longbow/attention/h1d/clusters.h".
std::string row_of(const Table& table, const std::string& path) {
  const auto rest = path.substr(table.folder.size());
  return rest.substr(0, rest.find_first_of("/."));
}

std::set<std::string> ignored_folders(const fs::path& root) {
  std::set<std::string> ignored = {".git"};
  std::ifstream file(root / ".gitignore");
  for (std::string line; std::getline(file, line);) {
    if (line.size() > 2 && line.front() == '/' && line.back() == '/')
      ignored.insert(line.substr(1, line.size() - 2));
  }
  return ignored;
}

size_t limit_of(const std::string& path) {
  if (path == "README.md") return 150;
  if (path == "CMakeLists.txt") return 120;
  if (starts_with(path, "longbow/kernels/")) return 600;
  return 500;
}

bool is_limited(const std::string& path) {
  return is_source(path) || fs::path(path).extension() == ".cmake" || path == "README.md" ||
         path == "CMakeLists.txt";
}

}  // namespace

Tree read_tree(const std::string& root) {
  Tree tree;
  const auto ignored = ignored_folders(root);
  for (auto entry = fs::recursive_directory_iterator(root);
       entry != fs::recursive_directory_iterator(); ++entry) {
    const auto path = fs::relative(entry->path(), root).generic_string();
    if (entry->is_directory() && ignored.count(path)) entry.disable_recursion_pending();
    if (!entry->is_regular_file()) continue;
    std::ifstream file(entry->path(), std::ios::binary);
    tree[path] = std::string(std::istreambuf_iterator<char>(file), {});
  }
  return tree;
}

Layers read_layers(const Tree& tree) {
  Layers layers;
  const auto file = tree.find("CMakeLists.txt");
  if (file == tree.end()) return layers;
  static const std::regex call(R"(^longbow_layer\((\w+)(?:\s+USES([a-z_\s]*))?.*\))");
  for (const auto& line : lines_of(file->second)) {
    std::smatch match;
    if (!std::regex_search(line, match, call)) continue;
    std::set<std::string> below = {"core"};
    std::istringstream uses(match[2].str());
    for (std::string used; uses >> used;) {
      below.insert(used);
      below.insert(layers[used].begin(), layers[used].end());
    }
    below.insert(match[1].str());
    layers[match[1].str()] = below;
  }
  return layers;
}

std::map<std::string, std::vector<std::string>> read_rooms(const Tree& tree) {
  std::map<std::string, std::vector<std::string>> rooms;
  const auto file = tree.find("CMakeLists.txt");
  if (file == tree.end()) return rooms;
  static const std::regex call(R"(^longbow_layer\((\w+).*\sROOMS([a-z_\s]*))");
  for (const auto& line : lines_of(file->second)) {
    std::smatch match;
    if (!std::regex_search(line, match, call)) continue;
    std::istringstream names(match[2].str());
    for (std::string name; names >> name;) rooms[match[1].str()].push_back(name);
  }
  return rooms;
}

Violations includes_against_the_layers(const Tree& tree) {
  const auto layers = read_layers(tree);
  Violations found;
  if (layers.empty()) return {"CMakeLists.txt: no longbow_layer(...) call"};
  for (const auto& [path, contents] : tree) {
    const bool is_test = starts_with(path, "tests/");
    if (!is_source(path) || is_planted(path) || !(is_test || starts_with(path, "longbow/")))
      continue;
    const auto layer = layers.find(layer_of(path));
    if (layer == layers.end()) {
      if (!is_test)
        found.push_back(path + ": no longbow_layer(" + layer_of(path) + ") in CMakeLists.txt");
      continue;
    }
    const auto lines = lines_of(contents);
    for (size_t i = 0; i < lines.size(); ++i) {
      const auto file = included(lines[i]);
      if (!starts_with(file, "longbow/") || layer->second.count(layer_of(file))) continue;
      found.push_back(at(path, i) + ": layer " + layer->first + " may not include " + file);
    }
  }
  return found;
}

Violations includes_against_the_rooms(const Tree& tree) {
  Violations found;
  for (const auto& [layer, rooms] : read_rooms(tree)) {
    const auto folder = "longbow/" + layer + "/";
    const auto& names = rooms;  // clang 14 captures no structured binding
    // The place of a file's room in the list; its length when the file is in none of them.
    const auto place_of = [&](const std::string& path) {
      const auto rest = path.substr(folder.size());
      return std::find(names.begin(), names.end(), rest.substr(0, rest.find('/'))) - names.begin();
    };
    const auto outside = static_cast<std::ptrdiff_t>(rooms.size());
    for (const auto& [path, contents] : tree) {
      if (!starts_with(path, folder) || !is_source(path)) continue;
      if (place_of(path) == outside) {
        found.push_back(path + ": is in no room of " + layer + "; CMakeLists.txt lists them");
        continue;
      }
      const auto lines = lines_of(contents);
      for (size_t i = 0; i < lines.size(); ++i) {
        const auto file = included(lines[i]);
        if (starts_with(file, folder) && place_of(file) > place_of(path))
          found.push_back(at(path, i) + ": room " + rooms[static_cast<size_t>(place_of(path))] +
                          " may not include " + file);
      }
    }
  }
  return found;
}

Violations circular_includes(const Tree& tree) {
  std::map<std::string, std::set<std::string>> includes;  // by path without its extension
  const auto node_of = [](const std::string& path) {
    return fs::path(path).replace_extension().generic_string();
  };
  for (const auto& [path, contents] : tree) {
    if (!starts_with(path, "longbow/") || !is_source(path)) continue;
    for (const auto& line : lines_of(contents)) {
      const auto file = included(line);
      if (starts_with(file, "longbow/") && layer_of(file) == layer_of(path) &&
          node_of(file) != node_of(path))
        includes[node_of(path)].insert(node_of(file));
    }
  }
  Violations found;
  std::set<std::string> done, open;  // open: on the way from where the walk began
  std::vector<std::string> way;
  const std::function<void(const std::string&)> walk = [&](const std::string& node) {
    way.push_back(node);
    open.insert(node);
    for (const auto& next : includes[node]) {
      if (open.count(next)) {
        std::string circle;
        for (auto at = std::find(way.begin(), way.end(), next); at != way.end(); ++at)
          circle += *at + " -> ";
        found.push_back(circle + next + ": these include each other in a circle");
      } else if (!done.count(next)) {
        walk(next);
      }
    }
    open.erase(node);
    done.insert(node);
    way.pop_back();
  };
  std::vector<std::string> nodes;
  for (const auto& [node, nexts] : includes) nodes.push_back(node);
  for (const auto& node : nodes)
    if (!done.count(node)) walk(node);
  return found;
}

Violations wide_torch_headers(const Tree& tree) {
  return each_line(tree, is_source, [](const std::string& line) -> std::string {
    const auto file = included(line);
    const bool wide =
        file == "torch/torch.h" || file == "torch/extension.h" || file == "torch/all.h";
    return wide ? file + " costs 15 s a file; include the narrow headers" : "";
  });
}

Violations rows_without_test_or_page(const Tree& tree) {
  Violations found;
  for (const auto& table : kTables)
    for (const auto& [path, contents] : tree) {
      const auto name = fs::path(path).stem().string();
      if (path != table.folder + name + ".cpp" || table.folder + name + ".h" == table.header)
        continue;
      for (const auto& needed : {table.tests + name + "_test.cpp", table.pages + name + ".md"})
        if (!tree.count(needed)) found.push_back(path + ": needs " + needed);
    }
  return found;
}

namespace {

Violations shared_files(const Tree& tree, const Table& table) {
  Violations found;
  for (const auto& [path, contents] : tree) {
    if (!starts_with(path, table.folder) || !is_source(path)) continue;
    const auto own = row_of(table, path);
    if (table.folder + own + ".h" == table.header) continue;
    const bool beside = path.find('/', table.folder.size()) == std::string::npos;
    if (beside && !table.has_headers && fs::path(path).extension() == ".h") {
      found.push_back(path + ": the header of a " + table.row +
                      " belongs in its own folder, or in " + table.home);
      continue;
    }
    if (!tree.count(table.folder + own + ".cpp"))
      found.push_back(path + ": there is no " + table.row + " " + own);
    const auto lines = lines_of(contents);
    for (size_t i = 0; i < lines.size(); ++i) {
      const auto file = included(lines[i]);
      if (!starts_with(file, table.folder) || file == table.header || row_of(table, file) == own)
        continue;
      found.push_back(at(path, i) + ": a " + table.row + " may not include " + file +
                      "; what two share belongs in " + table.home);
    }
  }
  return found;
}

}  // namespace

Violations rows_that_share_files(const Tree& tree) {
  Violations found;
  for (const auto& table : kTables) {
    const auto own = shared_files(tree, table);
    found.insert(found.end(), own.begin(), own.end());
  }
  return found;
}

Violations tests_without_source(const Tree& tree) {
  std::set<std::string> sources;  // "nn/mask"
  for (const auto& [path, contents] : tree) {
    if (starts_with(path, "longbow/") && is_source(path))
      sources.insert(layer_of(path) + "/" + fs::path(path).stem().string());
  }
  const auto layers = read_layers(tree);
  Violations found;
  for (const auto& [path, contents] : tree) {
    const auto stem = fs::path(path).stem().string();
    if (!starts_with(path, "tests/") || stem.size() < 6 || stem.substr(stem.size() - 5) != "_test")
      continue;
    if (!layers.count(layer_of(path)) || kTestsOfSeveralSources.count(stem)) continue;
    // What needs a GPU stands apart, and a test that trains is of a whole model.
    auto tested = stem.substr(0, stem.size() - 5);
    if (tested.ends_with("_train")) continue;
    if (tested.ends_with("_cuda")) tested.resize(tested.size() - 5);
    const auto source = layer_of(path) + "/" + tested;
    if (!sources.count(source))
      found.push_back(path + ": tests longbow/" + source + ", which does not exist");
  }
  return found;
}

Violations long_files(const Tree& tree) {
  Violations found;
  for (const auto& [path, contents] : tree) {
    if (!is_limited(path)) continue;
    const auto length = lines_of(contents).size();
    if (length <= limit_of(path)) continue;
    found.push_back(path + ": " + std::to_string(length) + " lines, at most " +
                    std::to_string(limit_of(path)));
  }
  return found;
}

Violations ignored_comparisons(const Tree& tree) {
  Violations found;
  for (const auto& [path, contents] : tree) {
    if (!starts_with(path, "tests/") || !is_source(path) || is_planted(path)) continue;
    char before =
        ';';  // the last character of the code above: inside an expression the result is used
    const auto lines = lines_of(contents);
    for (size_t i = 0; i < lines.size(); ++i) {
      const auto text = trimmed(lines[i]);
      if (text.empty() || starts_with(text, "//")) continue;
      const bool compares =
          starts_with(text, "torch::allclose(") || starts_with(text, "at::allclose(");
      if (compares && std::string(";{})").find(before) != std::string::npos) {
        found.push_back(at(path, i) + ": the result of allclose is ignored");
      }
      before = text.back();
    }
  }
  return found;
}

Violations todos_without_issue(const Tree& tree) {
  return each_line(
      tree, [](const std::string&) { return true; },
      [](const std::string& line) -> std::string {
        const auto mark = line.find("TODO");
        if (mark == std::string::npos) return "";
        const auto number = line.find('#', mark);
        const bool numbered = number != std::string::npos && number + 1 < line.size() &&
                              std::isdigit(line[number + 1]);
        return numbered ? "" : "TODO without #number of its issue";
      });
}

Violations nameless_folders(const Tree& tree) {
  std::set<std::string> folders;
  for (const auto& [path, contents] : tree) {
    for (auto folder = fs::path(path).parent_path(); !folder.empty();
         folder = folder.parent_path()) {
      const auto name = folder.filename().string();
      const bool nameless = std::count(kNamelessFolders.begin(), kNamelessFolders.end(), name) > 0;
      if (nameless) folders.insert(folder.generic_string());
    }
  }
  Violations found;
  for (const auto& folder : folders)
    found.push_back(folder + ": a folder is named after what it holds");
  return found;
}

Violations machine_paths(const Tree& tree) {
  static const std::regex path(R"((?:^|[^\w.~}$/-])(/(?:root|home|work)/))");
  return each_line(
      tree, [](const std::string&) { return true; },
      [](const std::string& line) -> std::string {
        if (line.find("/root/") == std::string::npos && line.find("/home/") == std::string::npos &&
            line.find("/work/") == std::string::npos) {
          return "";
        }
        std::smatch match;
        return std::regex_search(line, match, path) ? "a path of one machine: " + match[1].str()
                                                    : "";
      });
}

Violations parallel_pragmas(const Tree& tree) {
  static const std::regex pragma(R"(^\s*#\s*pragma\s+(omp|acc)\b)");
  static const std::regex call(R"(^[^"/]*\bat::parallel_for\()");
  return each_line(tree, is_source, [](const std::string& line) -> std::string {
    if (std::regex_search(line, call))
      return "at::parallel_for is serial without OpenMP; use in_parallel";
    return std::regex_search(line, pragma)
               ? "parallel loops are in_parallel, never OpenMP of our own"
               : "";
  });
}

}  // namespace longbow::layout
