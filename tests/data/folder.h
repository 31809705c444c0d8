#pragma once
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "longbow/core/error.h"
#include "longbow/core/file.h"

namespace longbow {

// A folder of its own for one test, removed afterwards.
struct Folder {
  Folder() {
    static int count = 0;
    path = std::filesystem::temp_directory_path() /
           ("longbow_data_" + std::to_string(getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string str() const { return path.string(); }
  std::string file(const std::string& name) const { return (path / name).string(); }
  std::string read(const std::string& name) const { return read_file(file(name)); }
  void write(const std::string& name, const std::string& contents) const {
    std::ofstream(file(name), std::ios::binary) << contents;
  }
  std::filesystem::path path;
};

// The message of the UserError that `action` throws, with the folder's own path left out.
template <class Action>
std::string error_of(Action&& action, const std::string& folder = "") {
  try {
    action();
  } catch (const UserError& error) {
    std::string text = error.what();
    for (size_t at; !folder.empty() && (at = text.find(folder + "/")) != std::string::npos;)
      text.erase(at, folder.size() + 1);
    return text;
  }
  return "no error";
}

}  // namespace longbow
