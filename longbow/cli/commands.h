#pragma once
// The subcommands. main.cpp turns flags into these structs, so that the parser is compiled once;
// each command returns the exit code, and throws UserError for what the user can mend.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace longbow {
struct FieldDoc;
}

namespace longbow::cli {

struct ListCommand {
  bool json = false, markdown = false;
};
int run(const ListCommand& command);

struct DescribeCommand {
  std::string name;
  bool json = false, markdown = false;
};
int run(const DescribeCommand& command);

struct InitCommand {
  std::string name;  // empty: say what can be asked for
  std::string file;  // of one's own, where the data set takes one
};
int run(const InitCommand& command);

struct DoctorCommand {
  bool json = false;
};
int run(const DoctorCommand& command);

struct TrainCommand {
  std::string config, out, device = "cpu", progress = "auto";
  std::vector<std::string> set;
  bool resume = false, dry_run = false;
  int64_t seed = -1;  // -1 = as the config says
  // A cell of an arena, for the process that waits for it.
  std::string label = "train", failure;  // failure: a file that says why there is no result
  int64_t further = 0;                   // cells that follow, and how long one takes
  double seconds_each = 0;
  bool measure = false;  // only the throughput of a run that is finished
};
int run(const TrainCommand& command);

struct EvalCommand {
  std::string folder, split = "test", device = "cpu";
  bool json = false;
};
int run(const EvalCommand& command);

// Options of model.decoding by name; what is not here is as the run's config says.
using DecodingFlags = std::map<std::string, std::string>;
std::vector<FieldDoc> decoding_options();

struct GenerateCommand {
  std::string folder, file, device = "cpu";  // file: empty = none, - = stdin
  std::optional<std::string> prompt;
  DecodingFlags decoding;
  int64_t count = 1, batch_size = 32;
  uint64_t seed = 1;
  bool json = false;
};
int run(const GenerateCommand& command);

struct TranslateCommand {
  std::string folder, file = "-", device = "cpu";
  DecodingFlags decoding;
  int64_t batch_size = 32;
  uint64_t seed = 1;
  bool json = false;
};
int run(const TranslateCommand& command);

struct PredictCommand {
  std::string folder, file, split, device = "cpu";  // neither file nor split: stdin
  int64_t limit = 0;                                // 0 = all
  bool json = false;
};
int run(const PredictCommand& command);

struct ArenaCommand {
  std::string config, out, device = "cpu", progress = "auto";
  std::vector<std::string> mechanisms, tasks, set;
  int64_t seeds = 0;  // 0 = as the config says
  int64_t jobs = 1;
  bool untimed = false;     // cells that were trained side by side have no throughput
  std::string time_budget;  // 90s, 45m, 1.5h; empty = as the config says
  bool resume = false;      // an arena always goes on where it stopped
};
int run(const ArenaCommand& command);

struct BenchCommand {
  std::vector<std::string> mechanisms;
  std::vector<std::string> configured;  // maps with options, as an arena has them
  std::vector<int64_t> lengths;
  std::vector<std::string> modes;
  bool growth = false;  // beside promises instead of softmax
  bool causal = false, graphs = false, profile = false;
  std::string config;  // a run config whose model is timed as a whole; empty: a layer is
  std::vector<std::string> set;
  std::string dtype = "float32", device = "cpu", json;
  int64_t batch = 1, tokens = 0, width = 256, heads = 4, repetitions = 7;
};
int run(const BenchCommand& command);

struct MapsCommand {
  std::string folder, out, json, text, split = "test", device = "cpu";  // a text or a sample
  int64_t sample = 0, limit = 0;                                        // limit 0 = all queries
};
int run(const MapsCommand& command);

struct ReportCommand {
  std::string folder, out;
  bool force = false;  // replace files of the same names
};
int run(const ReportCommand& command);

struct DataCommand {
  std::string action, name, folder;
  std::vector<std::string> set;
  int64_t seed = 1, count = 0;
  bool force = false;               // write into a folder that holds something
  std::vector<std::string> remove;  // entries of the cache
  double unused = -1;               // days; entries not used for so long are removed
};
int run(const DataCommand& command);

// Hypotheses against references, one text a line; a file may be -, stdin.
struct ScoreTexts {
  std::string hypotheses, paired, test = "bootstrap";  // paired: empty, or other hypotheses
  std::vector<std::string> references;
  bool lowercase = false, sentences = false, confidence = false, json = false;
  int64_t trials = 1000;
  uint64_t seed = 12345;
};

struct ScoreBleuCommand {
  ScoreTexts texts;
  std::string tokenize = "13a", smooth = "exp";
  std::optional<double> smooth_value;
  int64_t max_order = 4;
  bool effective_order = false;
};
int run(const ScoreBleuCommand& command);

struct ScoreChrfCommand {
  ScoreTexts texts;
  int64_t char_order = 6, word_order = 0, beta = 2;
  bool whitespace = false, eps_smoothing = false;
};
int run(const ScoreChrfCommand& command);

struct ScoreClassificationCommand {
  std::string predictions, references;
  std::vector<std::string> labels;  // empty = all
  double zero_division = 0;
  bool json = false;
};
int run(const ScoreClassificationCommand& command);

struct ScoreRegressionCommand {
  std::string predictions, references;
  std::optional<double> threshold;
  bool json = false;
};
int run(const ScoreRegressionCommand& command);

struct ScoreAnswersCommand {
  std::string predictions, data;
  bool korquad = false, json = false;
};
int run(const ScoreAnswersCommand& command);

// Options of tokenizer training by name; what is not here is the default of the kind.
std::vector<FieldDoc> tokenizer_options();

struct TokenizerCommand {
  std::string action, tokenizer, out, file = "-", progress = "auto";
  std::vector<std::string> files;
  std::map<std::string, std::string> options;
  bool pair = false, json = false, force = false;
  bool plain = false;    // encode without special tokens
  bool special = false;  // decode with them
};
int run(const TokenizerCommand& command);

struct ImportCommand {
  std::string folder, out, attention;  // empty attention = softmax, as it is
  int64_t seed = 1;
};
int run(const ImportCommand& command);

struct ExportCommand {
  std::string folder, out;
  int64_t max_shard_bytes = 0;
};
int run(const ExportCommand& command);

}  // namespace longbow::cli
