#include "longbow/nn/shards.h"

#include <filesystem>
#include <utility>

#include "longbow/core/config.h"
#include "longbow/core/file.h"
#include "longbow/nn/safetensors.h"

namespace fs = std::filesystem;

namespace longbow {
namespace {

// Which file a tensor is in, and where the index says so.
using Entries = std::map<std::string, std::pair<std::string, Place>>;

// Files lie beside the index: nothing else may be read through it.
std::string file_name(const std::string& tensor, const Node& entry) {
  if (!entry.is_scalar() || !entry.quoted)
    throw UserError(entry.place, "the file of tensor " + quote(tensor) + " is no string");
  const auto& name = entry.text;
  const bool is_plain = !name.empty() && name != "." && name != ".." &&
                        name.find_first_of(std::string("/\\\0", 3)) == std::string::npos;
  if (!is_plain)
    throw UserError(entry.place, "the file of tensor " + quote(tensor) + " is " + quote(name),
                    "it must be a file name beside the index");
  return name;
}

Entries read_index(const std::string& index) {
  const auto tree = parse_json(read_file(index), index);
  const auto* map = tree.find("weight_map");
  if (!map || !map->is_map() || map->entries.empty())
    throw UserError(map ? map->place : tree.place,
                    "weight_map is missing, empty or no map of tensors to files",
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

}  // namespace longbow
