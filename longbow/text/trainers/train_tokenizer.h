#pragma once
// A tokenizer from texts: what Hugging Face's library trains by default for each kind, with options
// over it.
#include "longbow/text/tokenizer/tokenizer.h"
#include "longbow/text/trainers/bpe_trainer.h"
#include "longbow/text/trainers/tokenizer_options.h"
#include "longbow/text/trainers/word_counts.h"

namespace longbow {

// The result depends on the texts and the options only. `next` may be empty for `bytes`, which
// reads no text. UserError when the texts hold no words.
Tokenizer train_tokenizer(const TrainTokenizerOptions& options, const NextText& next,
                          const TrainerProgress& progress = {});

}  // namespace longbow
