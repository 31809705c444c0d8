#pragma once
// What is around the model of a tokenizer of each kind, with the options over it.
#include "longbow/text/tokenizer/tokenizer.h"
#include "longbow/text/trainers/tokenizer_options.h"

namespace longbow {

// OptionError for an option that the kind does not have, before any text is read.
void check_kind_options(const TrainTokenizerOptions& options);

// Every option of the kind with a value; those that it does not have are without one.
TrainTokenizerOptions with_defaults(TrainTokenizerOptions options);

// The following take options with defaults.
NormalizerPtr preset_normalizer(const TrainTokenizerOptions& options);
PreTokenizerPtr preset_pre_tokenizer(const TrainTokenizerOptions& options);
TokenDecoderPtr preset_decoder(const TrainTokenizerOptions& options);
// Special tokens have their index as their id.
PostProcessorPtr preset_post_processor(const TrainTokenizerOptions& options);

}  // namespace longbow
