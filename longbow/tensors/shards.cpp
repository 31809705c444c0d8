#include "longbow/tensors/shards.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "longbow/core/config.h"
#include "longbow/core/file.h"
#include "longbow/core/file_name.h"
#include "longbow/tensors/safetensors.h"

namespace fs = std::filesystem;

namespace longbow {
namespace {

// Which file a tensor is in, and where the index says so.
using Entries = std::map<std::string, std::pair<std::string, Place>>;

// Files lie beside the index: nothing else may be read through it.
std::string file_name(const std::string& tensor, const Node& entry) {
  if (!entry.is_scalar() || !entry.quoted)
    throw UserError(entry.place, "the file of tensor " + quote(tensor) + " is not a string");
  const auto& name = entry.text;
  if (!is_file_name(name))
    throw UserError(entry.place, "the file of tensor " + quote(tensor) + " is " + quote(name),
                    "it must be a file name beside the index");
  return name;
}

Entries read_index(const std::string& index) {
  const auto tree = parse_json(read_file(index), index);
  const auto* map = tree.find("weight_map");
  if (!map || !map->is_map() || map->entries.empty())
    throw UserError(tree.place_of("weight_map"),
                    "weight_map is missing, empty or not a map of tensors to files",
                    "not an index of safetensors files");
  Entries entries;
  for (const auto& [tensor, entry] : map->entries)
    entries[tensor] = {file_name(tensor, entry), entry.place};
  return entries;
}

}  // namespace

std::map<std::string, at::Tensor> load_shards(const std::string& index) {
  const auto entries = read_index(index);
  const auto folder = fs::path(index).parent_path();
  std::map<std::string, Place> files;  // and where each is named first
  for (const auto& [tensor, entry] : entries) files.emplace(entry.first, entry.second);
  for (const auto& [file, place] : files)
    if (!fs::is_regular_file(folder / file))
      throw UserError(place, quote(file) + " is missing", "fetch all files of the model");
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [file, place] : files)
    for (const auto& [name, tensor] : load_safetensors((folder / file).string()).tensors) {
      const auto entry = entries.find(name);
      if (entry == entries.end())
        throw UserError(Place{(folder / file).string(), 0},
                        "tensor " + quote(name) + " is not in the index");
      if (entry->second.first != file)
        throw UserError(entry->second.second,
                        "tensor " + quote(name) + " is in " + quote(entry->second.first) +
                            " by the index, but " + quote(file) + " holds it");
      tensors.emplace(name, tensor);
    }
  for (const auto& [name, entry] : entries)
    if (!tensors.count(name))
      throw UserError(entry.second, "tensor " + quote(name) + " is not in " + quote(entry.first));
  return tensors;
}

void save_shards(const std::string& folder, const std::map<std::string, at::Tensor>& tensors,
                 int64_t most) {
  std::vector<std::map<std::string, at::Tensor>> files;
  int64_t total = 0, filled = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    if (files.empty() || filled + bytes > most) {
      files.emplace_back();
      filled = 0;
    }
    files.back()[name] = tensor;
    filled += bytes;
    total += bytes;
  }
  auto map = Node::map();
  for (size_t i = 0; i < files.size(); ++i) {
    const auto file = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
    save_safetensors((fs::path(folder) / file).string(), files[i], {{"format", "pt"}});
    for (const auto& [name, tensor] : files[i]) map[name] = Node::string(file);
  }
  const auto index = Node::map(
      {{"metadata", Node::map({{"total_size", Node::integer(total)}})}, {"weight_map", map}});
  write_file((fs::path(folder) / "model.safetensors.index.json").string(),
             to_json(index, 2) + "\n");
}

}  // namespace longbow
