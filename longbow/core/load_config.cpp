#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <unordered_map>

#include "longbow/core/config.h"
#include "longbow/core/fields.h"
#include "longbow/core/file.h"
#include "longbow/core/limits.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

// What is no config is refused before it is in memory as a whole.
std::string read_config(const std::string& path) {
  std::string text;
  read_in_parts(path, [&](std::string_view part) {
    if (text.size() + part.size() > kMostConfigBytes)
      throw UserError({path, 0}, fmt::format("longer than {} bytes", kMostConfigBytes),
                      "a config is short; is this another file?");
    text += part;
  });
  return text;
}

void merge_entries(Node& under, const Node& over) {
  std::unordered_map<std::string, size_t> at;
  for (size_t i = 0; i < under.entries.size(); ++i) at.emplace(under.entries[i].first, i);
  for (const auto& [key, value] : over.entries) {
    const auto [found, is_new] = at.emplace(key, under.entries.size());
    if (is_new)
      under.entries.emplace_back(key, value);
    else
      under.entries[found->second].second = merged(under.entries[found->second].second, value);
  }
}

bool names_another(const Node& under, const Node& over) {
  const Node* before = under.find("name");
  const Node* after = over.find("name");
  return before && after && !(*before == *after);
}

fs::path identity(const std::string& path) {
  std::error_code failed;
  auto canonical = fs::weakly_canonical(path, failed);
  return failed ? fs::path(path) : canonical;
}

Node parse_config(const std::string& text, const std::string& path) {
  auto node =
      fs::path(path).extension() == ".json" ? parse_json(text, path) : parse_yaml(text, path);
  if (node.is_null()) node.kind = Node::Kind::map;
  if (!node.is_map()) detail::fail_not_a_map(node, "the config");
  return node;
}

Node load(const std::string& path, const std::string& text, std::vector<fs::path> chain);

// What `named`, in the file `path`, calls its base; `chain` are the files that led here.
Node load_named(const Node& named, const std::string& path, std::vector<fs::path> chain) {
  auto base = as_string(named, "base");
  auto base_path = (fs::path(path).parent_path() / base).string();
  chain.push_back(identity(path));
  if (std::find(chain.begin(), chain.end(), identity(base_path)) != chain.end())
    throw UserError(named.place, fmt::format("base {} leads back to itself", quote(base)),
                    "remove one `base:`");
  std::string base_text;
  try {
    base_text = read_config(base_path);
  } catch (const UserError& error) {
    throw UserError(named.place, fmt::format("base {}", error.what()),
                    "the path is relative to this file");
  }
  return load(base_path, base_text, std::move(chain));
}

Node load(const std::string& path, const std::string& text, std::vector<fs::path> chain) {
  auto node = parse_config(text, path);
  const Node* named = node.find("base");
  if (!named) return node;
  auto under = load_named(*named, path, std::move(chain));
  merge_entries(under, without_base(node));
  under.place = node.place;
  return under;
}

std::vector<std::string> split_key(const std::string& key) {
  std::vector<std::string> parts;
  for (size_t start = 0; start <= key.size();) {
    size_t end = std::min(key.find('.', start), key.size());
    parts.push_back(key.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

}  // namespace

Node load_config(const std::string& path) {
  return load(path, read_config(path), {});
}

Node load_base(const Node& node) {
  const Node* named = node.find("base");
  return named ? load_named(*named, named->place.file, {}) : Node::map();
}

Node without_base(Node node) {
  std::erase_if(node.entries, [](const auto& entry) { return entry.first == "base"; });
  return node;
}

Node merged(const Node& under, const Node& over) {
  if (!under.is_map() || !over.is_map() || names_another(under, over)) return over;
  Node both = under;
  merge_entries(both, over);
  both.place = over.place;
  return both;
}

void assign(Node& root, const std::string& assignment) {
  size_t equals = assignment.find('=');
  auto key = assignment.substr(0, equals);
  auto parts = split_key(key);
  bool has_empty_part = std::find(parts.begin(), parts.end(), "") != parts.end();
  if (equals == std::string::npos || has_empty_part)
    throw UserError(fmt::format("--set {} has no key and value", quote(assignment)),
                    "write --set model.width=64");
  Place flag{"--set " + key, 0};
  auto value = parse_yaml(assignment.substr(equals + 1), flag);
  Node* slot = &root;
  std::string walked;
  for (const auto& part : parts) {
    if (!slot->is_null() && !slot->is_map())
      throw UserError(flag, detail::type_error(*slot, walked, "a map"));
    if (slot->is_null()) slot->place = flag;
    slot = &(*slot)[part];
    walked += (walked.empty() ? "" : ".") + part;
  }
  *slot = std::move(value);
}

}  // namespace longbow
