#pragma once
#include <string>

#include "longbow/core/fields.h"
#include "longbow/text/trainers/tokenizer_options.h"

namespace longbow {

// data.tokenizer: one that exists, or how one is trained.
struct TokenizerConfig {
  std::string file = {};
  TrainTokenizerOptions training = {};
};
template <class V>
void fields(V& v, TokenizerConfig& c) {
  v("file", c.file,
    "tokenizer.json, vocab.txt, a SentencePiece .model, or a folder with one of them; relative to "
    "the config; empty: one is trained on the training split");
  fields(v, c.training);
}

}  // namespace longbow
