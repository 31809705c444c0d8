#pragma once
// What the commands share that ask a trained model: generate, translate, predict.
#include <functional>
#include <optional>

#include "longbow/cli/commands.h"
#include "longbow/train/run/finished_run.h"

namespace longbow::cli {

// A finished run in evaluation mode. UserError when its objective answers to another command.
FinishedRun open_for(const std::string& command, const std::string& folder,
                     const std::string& device);

// UserError for another name than "train", "valid" or "test"; before a run is opened.
void check_split(const std::string& name);
const Dataset& split_of(const Task& task, const std::string& name);

struct Line {
  std::string text;
  Place place;
};
// The lines of a file, "-" for stdin; they may end in LF or CRLF.
std::vector<Line> input_lines(const std::string& file);

// Each line as the task reads it. UserError at a line that is empty, unknown, too long, or not a
// pair where pairs are read.
std::shared_ptr<const Dataset> inputs_of(const Task& task, const std::vector<Line>& lines);

// Batches as in training, so that what a sample gets does not depend on those beside it: its padded
// length is a function of its own. `longest` is what the model holds.
SamplerConfig as_trained(SamplerConfig config, int64_t longest);

// Every sample once; `take` gets the batch on the task's device, with the indices of its samples
// and what is drawn for it.
using Take = std::function<void(const Batch&, const std::vector<int64_t>&, const Random&)>;
void for_batches(const Task& task, const Dataset& data, SamplerConfig sampler, uint64_t seed,
                 const Take& take);

// How the task writes, with the flags over it. UserError at a flag that is wrong, or that the
// method has no use for.
DecodingConfig decoding_with(const Task& task, const DecodingFlags& flags);

struct Written {
  std::vector<int64_t> tokens;  // with the end, where it has one
  std::string text;             // without it
  double score = 0;
};
// What the task writes for each sample, best first.
std::vector<std::vector<Written>> write_all(Task& task, const Dataset& data,
                                            const SamplerConfig& sampler, const DecodingConfig& how,
                                            uint64_t seed);
Node list_of(const std::vector<Written>& written);  // as JSON shows them

}  // namespace longbow::cli
