#include "longbow/text/components/decoders.h"

#include <algorithm>
#include <charconv>

#include "longbow/core/utf8.h"
#include "longbow/text/components/byte_level.h"
#include "longbow/text/components/pattern.h"
#include "longbow/text/components/pre_tokenizers.h"
#include "longbow/text/unicode/well_formed.h"

namespace longbow {
namespace {

constexpr const char* kReplacementCharacter = "\xef\xbf\xbd";

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// Undoes what splitting English at punctuation has done.
void clean_up(std::string& text) {
  constexpr std::pair<const char*, const char*> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_all(text, from, to);
}

// How many bytes at `at` are one character, or the longest beginning of one that is cut off: each
// such stretch is shown as one U+FFFD.
size_t broken_bytes(std::string_view text, size_t at) {
  const auto first = unicode::byte_at(text, at);
  if (first < 0xc2 || first > 0xf4) return 1;
  const auto byte = [&](size_t i) {
    return at + i < text.size() ? unicode::byte_at(text, at + i) : 0;
  };
  const auto low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const auto high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) return 1;
  size_t count = 2;
  while (count < unicode::bytes_of(first) && (byte(count) & 0xc0) == 0x80) ++count;
  return count;
}

std::string well_formed(const std::string& bytes) {
  if (find_invalid_utf8(bytes) == std::string::npos) return bytes;
  std::string out;
  for (size_t at = 0; at < bytes.size();) {
    const auto next = utf8_at(bytes, at);
    const size_t count = next.valid ? next.bytes : broken_bytes(bytes, at);
    out += next.valid ? bytes.substr(at, count) : kReplacementCharacter;
    at += count;
  }
  return out;
}

struct WordPieceDecoder : TokenDecoder {
  explicit WordPieceDecoder(ComponentReader& reader)
      : prefix(reader.string("prefix", "##")), cleanup(reader.boolean("cleanup", true)) {}
  void decode(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      auto& token = tokens[i];
      if (i > 0 && token.starts_with(prefix))
        token.erase(0, prefix.size());
      else if (i > 0)
        token.insert(0, 1, ' ');
      if (cleanup) clean_up(token);
    }
  }
  Node node() const override {
    return component_node("WordPiece",
                          {{"prefix", Node::string(prefix)}, {"cleanup", Node::boolean(cleanup)}});
  }
  std::string prefix;
  bool cleanup;
};

struct ByteLevelDecoder : TokenDecoder {
  explicit ByteLevelDecoder(ComponentReader& reader) : options(reader) {}
  void decode(std::vector<std::string>& tokens) const override {
    std::string bytes;
    for (const auto& token : tokens) bytes += bytes_of_characters(token);
    tokens = {well_formed(bytes)};
  }
  Node node() const override { return options.node(); }
  ByteLevelOptions options;
};

struct MetaspaceDecoder : TokenDecoder {
  explicit MetaspaceDecoder(ComponentReader& reader) : options(reader) {
    append_utf8(mark, options.replacement);
  }
  void decode(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool is_put_there = i == 0 && options.prepend_scheme != PrependScheme::never;
      replace_all(tokens[i], mark, is_put_there ? "" : " ");
    }
  }
  Node node() const override { return options.node(); }
  MetaspaceOptions options;
  std::string mark;
};

struct BpeDecoder : TokenDecoder {
  explicit BpeDecoder(ComponentReader& reader) : suffix(reader.string("suffix", "</w>")) {}
  void decode(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], suffix, i + 1 == tokens.size() ? "" : " ");
  }
  Node node() const override {
    return component_node("BPEDecoder", {{"suffix", Node::string(suffix)}});
  }
  std::string suffix;
};

// "<0x0A>" to its byte, or -1.
int byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int value = -1;
  const auto result = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  return result.ptr == token.data() + 5 && value >= 0 ? value : -1;
}

struct ByteFallbackDecoder : TokenDecoder {
  void decode(std::vector<std::string>& tokens) const override {
    std::vector<std::string> out;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (find_invalid_utf8(bytes) == std::string::npos)
        out.push_back(bytes);
      else
        out.insert(out.end(), bytes.size(), kReplacementCharacter);
      bytes.clear();
    };
    for (auto& token : tokens) {
      const int byte = byte_of_token(token);
      if (byte >= 0) {
        bytes += static_cast<char>(byte);
        continue;
      }
      flush();
      out.push_back(std::move(token));
    }
    flush();
    tokens = std::move(out);
  }
  Node node() const override { return component_node("ByteFallback"); }
};

struct FuseDecoder : TokenDecoder {
  void decode(std::vector<std::string>& tokens) const override {
    std::string all;
    for (const auto& token : tokens) all += token;
    tokens = {std::move(all)};
  }
  Node node() const override { return component_node("Fuse"); }
};

struct StripDecoder : TokenDecoder {
  explicit StripDecoder(ComponentReader& reader)
      : content(reader.character("content")),
        start(reader.count("start")),
        stop(reader.count("stop")) {
    append_utf8(mark, content);
  }
  void decode(std::vector<std::string>& tokens) const override {
    for (auto& token : tokens) {
      std::string_view left = token;
      for (size_t i = 0; i < start && left.starts_with(mark); ++i) left.remove_prefix(mark.size());
      for (size_t i = 0; i < stop && left.ends_with(mark); ++i) left.remove_suffix(mark.size());
      token = std::string(left);
    }
  }
  Node node() const override {
    return component_node("Strip", {{"content", string_of(content)},
                                    {"start", Node::integer(static_cast<int64_t>(start))},
                                    {"stop", Node::integer(static_cast<int64_t>(stop))}});
  }
  char32_t content;
  size_t start, stop;
  std::string mark;
};

struct ReplaceDecoder : TokenDecoder {
  explicit ReplaceDecoder(ComponentReader& reader)
      : pattern(reader, "pattern"), content(reader.string("content")) {}
  void decode(std::vector<std::string>& tokens) const override {
    for (auto& token : tokens) {
      std::string out;
      size_t last = 0;
      pattern.regex().each_match(token, [&](size_t begin, size_t end) {
        out.append(token, last, begin - last).append(content);
        last = end;
      });
      token = out.append(token, last);
    }
  }
  Node node() const override {
    return component_node("Replace",
                          {{"pattern", pattern.node()}, {"content", Node::string(content)}});
  }
  TextPattern pattern;
  std::string content;
};

struct CtcDecoder : TokenDecoder {
  explicit CtcDecoder(ComponentReader& reader)
      : pad_token(reader.string("pad_token", "<pad>")),
        word_delimiter(reader.string("word_delimiter_token", "|")),
        cleanup(reader.boolean("cleanup", true)) {}
  void decode(std::vector<std::string>& tokens) const override {
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    for (auto& token : tokens) {
      replace_all(token, pad_token, "");
      if (!cleanup) continue;
      clean_up(token);
      replace_all(token, word_delimiter, " ");
    }
    std::erase(tokens, "");
  }
  Node node() const override {
    return component_node("CTC", {{"pad_token", Node::string(pad_token)},
                                  {"word_delimiter_token", Node::string(word_delimiter)},
                                  {"cleanup", Node::boolean(cleanup)}});
  }
  std::string pad_token, word_delimiter;
  bool cleanup;
};

struct DecoderSequence : TokenDecoder {
  explicit DecoderSequence(ComponentReader& reader)
      : steps(read_steps(reader, "decoders", read_decoder)) {}
  void decode(std::vector<std::string>& tokens) const override {
    for (const auto& step : steps) step->decode(tokens);
  }
  Node node() const override { return sequence_node("decoders", steps); }
  std::vector<TokenDecoderPtr> steps;
};

template <class T>
constexpr auto plain = component_alone<TokenDecoderPtr, T>;
template <class T>
constexpr auto read = component_with_fields<TokenDecoderPtr, T>;

constexpr ComponentRow<TokenDecoderPtr> kRows[] = {
    {"BPEDecoder", read<BpeDecoder>},      {"ByteFallback", plain<ByteFallbackDecoder>},
    {"ByteLevel", read<ByteLevelDecoder>}, {"CTC", read<CtcDecoder>},
    {"Fuse", plain<FuseDecoder>},          {"Metaspace", read<MetaspaceDecoder>},
    {"Replace", read<ReplaceDecoder>},     {"Sequence", read<DecoderSequence>},
    {"Strip", read<StripDecoder>},         {"WordPiece", read<WordPieceDecoder>},
};

}  // namespace

TokenDecoderPtr read_decoder(const Node& node) {
  return read_component<TokenDecoderPtr>(node, "decoder", kRows);
}

}  // namespace longbow
