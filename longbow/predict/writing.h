#pragma once
// Texts that a trained model writes, behind prompts or for sources.
#include "longbow/data/feed/sampler.h"
#include "longbow/data/samples/facts.h"
#include "longbow/predict/inputs.h"

namespace longbow::predict {

// How the task writes, with these options of DecodingConfig over it. UserError at an option that is
// wrong, or that the method has no use for.
DecodingConfig decoding_with(const Task& task, const Node& options);

struct Written {
  std::vector<int64_t> tokens;  // with the end, where it has one
  std::string text;             // without it; what it adds to a prompt of plain text
  double score = 0;
};

// What texts begin with; a prompt has its own place for messages. The text of a beginning that
// nobody gave is a symbol, or empty where texts are plain: what is written has it then.
struct Prompts {
  std::shared_ptr<const Dataset> data;
  std::vector<std::string> texts;
  std::vector<Place> places;
};
Prompts prompts_of(const Task& task, const std::vector<Line>& lines);
// As many beginnings as wanted: the token that begins a text, or stands before one ([CLS]), or
// where there is none those that training samples begin with, as often as they do.
Prompts beginnings(const Task& task, const DataFacts& facts, int64_t count, uint64_t seed,
                   const Place& place);

// What follows each prompt, best first. UserError where the model has no room for it.
std::vector<std::vector<Written>> continued(Task& task, const Prompts& prompts,
                                            const DecodingConfig& how, int64_t batch_size,
                                            uint64_t seed);

// What is written for each source, best first; `trained` is how samples were batched in training,
// but for the size.
std::vector<std::vector<Written>> translated(Task& task, const std::vector<Line>& sources,
                                             const SamplerConfig& trained,
                                             const DecodingConfig& how, int64_t batch_size,
                                             uint64_t seed);
// UserError at `place` where the decoder has no room for it.
void check_translation_room(const Task& task, const DecodingConfig& how, const Place& place);

}  // namespace longbow::predict
