#pragma once
// What makes tokens of a word. A model never changes and may be used by many threads; what it needs
// while it works is in a scratch of the caller.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "longbow/text/models/json_stream.h"
#include "longbow/text/models/vocabulary.h"

namespace longbow {

// A token and the bytes of its word that it stands for.
struct WordToken {
  int32_t id;
  uint32_t begin, end;
};

struct ModelScratch {
  struct Symbol {
    int32_t id;
    int32_t previous, next;  // in the word; -1 at its ends
    uint32_t bytes;          // 0: merged into its neighbour
  };
  struct Candidate {
    uint32_t rank;
    int32_t at, merged_id;
  };
  struct BestPath {
    double score;
    int32_t begin;  // of the last token on the path; -1: no path yet
    int32_t id;
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> candidates;
  std::vector<BestPath> paths;
  std::string key;
};

// What marks the tokens of parts of words; empty where nothing does.
struct WordAffixes {
  std::string continuing_prefix;  // of every token but the first of a word
  std::string end_suffix;         // of the last one
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the tokens of a word, which is well-formed UTF-8 and not empty. An unknown character
  // without an unknown token to stand for it is a UserError.
  virtual void tokenize(std::string_view word, ModelScratch& scratch,
                        std::vector<WordToken>& out) const = 0;
  virtual const TokenVocabulary& vocabulary() const = 0;
  // The text of a token in an encoding.
  virtual std::string_view text_of(const WordToken& token, std::string_view word) const;
  virtual WordAffixes affixes() const { return {}; }
  virtual void write(JsonStream& out) const = 0;  // the object "model" of tokenizer.json
};
using TokenModelPtr = std::shared_ptr<const TokenModel>;

// Writes "vocab": an object in the order of ids.
void write_vocabulary(JsonStream& out, const TokenVocabulary& vocabulary);
// The ids of "<0x00>" to "<0xFF>", or -1.
std::vector<int32_t> byte_tokens(const TokenVocabulary& vocabulary);

}  // namespace longbow
