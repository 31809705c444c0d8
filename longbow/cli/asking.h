#pragma once
// What the commands share that ask a trained model: generate, translate, predict, maps.
#include "longbow/cli/commands.h"
#include "longbow/predict/trained_model.h"
#include "longbow/predict/writing.h"

namespace longbow::cli {

// UserError for another name than "train", "valid" or "test"; before a run is opened.
void check_split(const std::string& name);
std::shared_ptr<const Dataset> split_of(const Task& task, const std::string& name);

// The model of a run in evaluation mode. UserError when its objective answers to another command.
TrainedModel open_for(const std::string& command, const std::string& folder,
                      const std::string& device);

// The lines of a file, "-" for stdin; they may end in LF or CRLF.
std::vector<predict::Line> input_lines(const std::string& file);

// How the task writes, with the flags over it.
DecodingConfig decoding_with(const Task& task, const DecodingFlags& flags);

Node list_of(const std::vector<predict::Written>& written);  // as JSON shows them

}  // namespace longbow::cli
