#include "longbow/train/run/config_path.h"

#include <filesystem>

namespace fs = std::filesystem;

namespace longbow {

std::string beside(const std::string& path, const Place& place) {
  const fs::path given = path;
  if (!given.is_relative() || place.line == 0) return path;
  return (fs::path(place.file).parent_path() / given).string();
}

std::string absolute_path(const std::string& path, const Place& place) {
  return fs::absolute(beside(path, place)).lexically_normal().string();
}

}  // namespace longbow
