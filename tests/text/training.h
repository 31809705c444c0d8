#pragma once
// What the tests of the trainers read: texts, plain or packed, and what Hugging Face's tokenizers
// trained on them.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "longbow/text/trainers/bpe_trainer.h"
#include "longbow/text/trainers/word_counts.h"
#include "tests/support/parity.h"

namespace longbow::training {

// The lines of a text without their ends; a name that ends in .xz is unpacked.
std::vector<std::string> lines_of(const std::filesystem::path& path);
nlohmann::ordered_json json_of(const std::filesystem::path& path);

NextText texts(std::vector<std::string> lines);

// The words of the lines by the components that a tokenizer.json names.
std::vector<WordCount> counted(const std::vector<std::string>& lines,
                               const nlohmann::ordered_json& tokenizer);

// Options under the names of the library.
BpeTrainerOptions bpe_options(const nlohmann::ordered_json& options);

// The trained result is the recorded one, ids and merges.
void expect_trained(const std::vector<WordCount>& words, BpeTrainerOptions options,
                    const std::vector<std::string>& tokens, const nlohmann::ordered_json& merges);

inline std::filesystem::path small_collection() {
  return parity_file("tokenizers_training");
}
inline std::filesystem::path full_collection() {
  return parity_collection() / "tokenizers";
}

}  // namespace longbow::training
