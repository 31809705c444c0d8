#include "tests/text/training.h"

#include <lzma.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "longbow/core/file.h"
#include "longbow/text/components/byte_level.h"
#include "longbow/text/components/normalizers.h"
#include "longbow/text/components/pre_tokenizers.h"

namespace longbow::training {
namespace {

std::string unpacked(const std::string& packed) {
  std::string text(size_t{16} << 20, '\0');
  uint64_t memory = std::numeric_limits<uint64_t>::max();
  size_t in = 0, out = 0;
  const auto result = lzma_stream_buffer_decode(
      &memory, 0, nullptr, reinterpret_cast<const uint8_t*>(packed.data()), &in, packed.size(),
      reinterpret_cast<uint8_t*>(text.data()), &out, text.size());
  if (result != LZMA_OK) throw std::runtime_error("cannot be unpacked");
  text.resize(out);
  return text;
}

Node node_of(const nlohmann::ordered_json& tokenizer, const char* part) {
  return tokenizer.contains(part) ? parse_json(tokenizer.at(part).dump(), part) : Node{};
}

}  // namespace

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  auto text = read_file(path.string());
  if (path.extension() == ".xz") text = unpacked(text);
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

nlohmann::ordered_json json_of(const std::filesystem::path& path) {
  return nlohmann::ordered_json::parse(read_file(path.string()));
}

NextText texts(std::vector<std::string> lines) {
  return [lines = std::move(lines), at = size_t{0}](std::string& text) mutable {
    if (at == lines.size()) return false;
    text = lines[at++];
    return true;
  };
}

std::vector<WordCount> counted(const std::vector<std::string>& lines,
                               const nlohmann::ordered_json& tokenizer) {
  return count_words(texts(lines),
                     split_by(read_normalizer(node_of(tokenizer, "normalizer")),
                              read_pre_tokenizer(node_of(tokenizer, "pre_tokenizer"))));
}

BpeTrainerOptions bpe_options(const nlohmann::ordered_json& options) {
  BpeTrainerOptions made;
  made.vocabulary = options.at("vocab_size");
  made.min_frequency = options.at("min_frequency");
  if (options.contains("special_tokens"))
    made.special_tokens = options.at("special_tokens").get<std::vector<std::string>>();
  if (options.contains("limit_alphabet"))
    made.limit_alphabet = options.at("limit_alphabet").get<int64_t>();
  if (options.contains("max_token_length"))
    made.max_token_length = options.at("max_token_length").get<int64_t>();
  made.continuing_prefix = options.value("continuing_subword_prefix", "");
  made.end_of_word_suffix = options.value("end_of_word_suffix", "");
  if (options.contains("initial_alphabet"))
    for (int byte = 0; byte < 256; ++byte)
      made.initial_alphabet.push_back(character_of_byte(static_cast<unsigned char>(byte)));
  return made;
}

void expect_trained(const std::vector<WordCount>& words, BpeTrainerOptions options,
                    const std::vector<std::string>& tokens, const nlohmann::ordered_json& merges) {
  options.first_symbols = tokens;  // the library orders them by chance
  const auto trained = train_bpe(words, options);
  EXPECT_EQ(trained.tokens, tokens);
  if (merges.is_null()) return;
  ASSERT_EQ(trained.merges.size(), merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    EXPECT_EQ(trained.tokens[trained.merges[i].first], merges[i][0]) << "merge " << i;
    EXPECT_EQ(trained.tokens[trained.merges[i].second], merges[i][1]) << "merge " << i;
  }
}

}  // namespace longbow::training
