#include <filesystem>

#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

namespace fs = std::filesystem;

// A case may be two files, <case>.io and <case>.model: the second holds the weights of the first.
fs::path other_half(const fs::path& file, const std::string& own, const std::string& other) {
  const auto name = file.stem();
  if (name.extension() != own) return {};
  return file.parent_path() / (name.stem().string() + other + ".safetensors");
}
bool is_second_half(const fs::path& file) {
  return fs::exists(other_half(file, ".model", ".io"));
}

Case load_case(const fs::path& file) {
  auto loaded = load_safetensors(file.string());
  if (const auto weights = other_half(file, ".io", ".model"); fs::exists(weights))
    loaded.tensors.merge(load_safetensors(weights.string()).tensors);
  return {file.stem().string(), parse_json(loaded.metadata.at("config"), file.string()),
          std::move(loaded.tensors)};
}

// Not cases of an attention: other layers' tests read them.
bool elsewhere(const fs::path& folder) {
  const auto name = folder.filename();
  return name == "formats" || name == "metrics" || name == "tokenizers" ||
         fs::exists(folder / "config.json");
}

}  // namespace

std::vector<std::string> check_folder(const fs::path& folder) {
  std::vector<std::string> names;
  for (auto it = fs::recursive_directory_iterator(folder); it != fs::recursive_directory_iterator();
       ++it) {
    if (it->is_directory() && elsewhere(it->path())) it.disable_recursion_pending();
    if (it->path().extension() != ".safetensors" || is_second_half(it->path())) continue;
    const auto name = it->path().stem().string();
    const auto* entry = find_entry(name);
    if (!entry) {
      ADD_FAILURE() << it->path() << " has no reader";
      continue;
    }
    for (const auto& check : entry->checks) {
      const auto failure = error_of([&] { check(load_case(it->path())); });
      EXPECT_EQ(failure, "") << name;
    }
    names.push_back(name);
  }
  return names;
}

}  // namespace longbow::parity
