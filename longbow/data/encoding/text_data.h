#pragma once
// A corpus as samples: its tokenizer is read or trained on the training split, every record becomes
// a sample, and what was encoded is kept in a cache, so that it is encoded once.
#include "longbow/data/encoding/text_corpus.h"
#include "longbow/data/readers/source.h"

namespace longbow {

// `options` are those of the data set, spelled out: with the contents of the files, the tokenizer
// and data.max_tokens they decide what is in the cache.
Splits encode_corpus(const DataConfig& data, const Node& options, const TextCorpus& corpus);

// The row of a data set of texts: `corpus` says what its files hold; `check` is that of
// data_source().
template <class Config>
DataSource text_source(DataSource row,
                       std::function<TextCorpus(const DataConfig&, const Config& options)> corpus,
                       CheckOptions<Config> check = nullptr) {
  return data_source<Config>(
      std::move(row),
      [corpus](const DataConfig& data, const Config& options) {
        return encode_corpus(data, written(options), corpus(data, options));
      },
      nullptr, check);
}

}  // namespace longbow
