#pragma once
// Tokenizers that are only a vocabulary on disk: BERT's vocab.txt, GPT-2's vocab.json with
// merges.txt. What else a tokenizer is, follows from which of the two it is.
#include <string>

#include "longbow/text/tokenizer/tokenizer.h"

namespace longbow {

// One token a line, its number is the id; of a token that is there twice, the last counts. [PAD],
// [UNK], [CLS], [SEP] and [MASK] are special where they are there; texts are framed by [CLS] and
// [SEP]. Lower case goes with stripping accents, as in BERT.
struct BertVocabularyOptions {
  bool lowercase = true;
};
Tokenizer parse_bert_vocabulary(const std::string& text, const std::string& name,
                                const BertVocabularyOptions& options = {});

// Byte-level BPE. `special` are tokens that are found in a text before it is split.
struct Gpt2Files {
  std::string vocabulary, vocabulary_name;
  std::string merges, merges_name;
  std::vector<std::string> special = {"<|endoftext|>"};
  bool add_prefix_space = false;
};
Tokenizer parse_gpt2_files(const Gpt2Files& files);

}  // namespace longbow
