#include "longbow/text/formats/read_tokenizer.h"

#include <algorithm>
#include <filesystem>

#include "longbow/core/config.h"
#include "longbow/core/file.h"
#include "longbow/text/formats/sentencepiece.h"
#include "longbow/text/formats/tokenizer_json.h"
#include "longbow/text/formats/vocabulary_files.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

std::string file_in(const fs::path& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model",
                           "sentencepiece.bpe.model", "vocab.txt", "vocab.json"})
    if (fs::is_regular_file(folder / name)) return (folder / name).string();
  throw UserError(Place{folder.string(), 0}, "no tokenizer in this folder",
                  "tokenizer.json, tokenizer.model, vocab.txt, or vocab.json with merges.txt");
}

Node config_beside(const fs::path& file) {
  const auto config = file.parent_path() / "tokenizer_config.json";
  if (!fs::is_regular_file(config)) return {};
  return parse_json(read_file(config.string()), config.string());
}

bool flag_of(const Node& config, const char* key, bool otherwise) {
  const auto* node = config.find(key);
  return node && !node->is_null() ? as_boolean(*node, key) : otherwise;
}

// "bos_token": "<s>" or "bos_token": {"content": "<s>", …}
std::vector<std::string> special_tokens_of(const Node& config) {
  std::vector<std::string> tokens = {"<|endoftext|>"};
  for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token", "mask_token"}) {
    const auto* node = config.find(key);
    if (node && node->is_map()) node = node->find("content");
    if (!node || !node->is_scalar()) continue;
    if (std::find(tokens.begin(), tokens.end(), node->text) == tokens.end())
      tokens.push_back(node->text);
  }
  return tokens;
}

Tokenizer read_gpt2(const fs::path& file) {
  const auto merges = file.parent_path() / "merges.txt";
  const auto config = config_beside(file);
  return parse_gpt2_files({read_file(file.string()), file.string(), read_file(merges.string()),
                           merges.string(), special_tokens_of(config),
                           flag_of(config, "add_prefix_space", false)});
}

}  // namespace

Tokenizer read_tokenizer(const std::string& path_or_folder, const ReadTokenizerOptions& options) {
  const fs::path path = fs::is_directory(path_or_folder) ? file_in(path_or_folder) : path_or_folder;
  const auto kind = path.extension();
  if (kind == ".txt") {
    const bool lowercase =
        options.lowercase.value_or(flag_of(config_beside(path), "do_lower_case", true));
    return parse_bert_vocabulary(read_file(path.string()), path.string(), {lowercase});
  }
  if (kind == ".model") return parse_sentencepiece(read_file(path.string()), path.string());
  if (path.filename() == "vocab.json") return read_gpt2(path);
  return parse_tokenizer_json(read_file(path.string()), path.string());
}

void write_tokenizer(const Tokenizer& tokenizer, const std::string& path) {
  write_file(path, tokenizer_json(tokenizer) + "\n");
}

}  // namespace longbow
