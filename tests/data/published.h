#pragma once
// What the tests of published data sets share: samples in a cache of their own, and a collection
// of the published files, where there is one.
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "longbow/data/readers/source.h"
#include "tests/data/folder.h"

namespace longbow {

// The folder `name` of the collection beside the repository; a test without it is skipped.
inline std::filesystem::path collected(const std::string& name) {
  return std::filesystem::path(LONGBOW_SOURCE_DIR) / "../shared/data" / name;
}

struct Published {
  std::string set, path;
  std::string options = "{}", tokenizer = "{train: bytes}";
  int64_t max_tokens = 0;
};

inline Splits load_published(const Published& data) {
  static const Folder cache;
  return load_data(
      {.name = data.set,
       .path = data.path,
       .max_tokens = data.max_tokens,
       .tokenizer = read<TokenizerConfig>(parse_yaml(data.tokenizer, "run.yaml"), "tokenizer"),
       .cache = cache.str(),
       .options = parse_yaml(data.options, "run.yaml")});
}

// The message that a folder without what the data set needs leads to.
inline std::string refusal(const Folder& folder, const std::string& set,
                           const std::string& options = "{}") {
  return error_of([&] { load_published({.set = set, .path = folder.str(), .options = options}); },
                  folder.str());
}

// How often each class occurs.
inline std::map<std::string, int64_t> classes_in(const Splits& splits, const Dataset& data) {
  std::map<std::string, int64_t> counts;
  for (int64_t i = 0; i < data.size(); ++i)
    ++counts[splits.labels.at(static_cast<size_t>(data.get(i).targets.at(0)))];
  return counts;
}

inline std::map<std::string, int64_t> operator+(std::map<std::string, int64_t> left,
                                                const std::map<std::string, int64_t>& right) {
  for (const auto& [name, count] : right) left[name] += count;
  return left;
}

// The text of a sample where tokens are bytes; ids above theirs begin and end targets.
inline std::string text_of(const std::vector<int32_t>& tokens) {
  std::string text;
  for (const auto token : tokens)
    if (token <= 256) text += static_cast<char>(token - 1);
  return text;
}

// The different first texts of the samples, where tokens are bytes.
inline std::set<std::string> texts_of(const Dataset& data) {
  std::set<std::string> all;
  for (int64_t i = 0; i < data.size(); ++i) all.insert(text_of(data.get(i).tokens));
  return all;
}

}  // namespace longbow
