#pragma once
// Encodings that Hugging Face's tokenizers and SentencePiece made, and what they must be.
#include <filesystem>
#include <string>
#include <vector>

#include "longbow/core/config.h"
#include "longbow/text/tokenizer/tokenizer.h"

namespace longbow {

// The folders to look in: tests/parity/tokenizers, and the collection where it is there.
std::vector<std::filesystem::path> vector_folders();

struct ProbeLines {
  std::vector<std::string> lines;
  std::vector<std::pair<std::string, std::string>> pairs;
};
ProbeLines probe_lines(const std::filesystem::path& folder);

Node json_of(const std::filesystem::path& file);

// Fails the test where an encoding is not the recorded one; masks that are not recorded are all 0
// and all 1.
void expect_encoding(const Encoding& got, const Node& want, const std::string& what);

}  // namespace longbow
