// longbow: one program, a subcommand for each thing one does with efficient transformers.
#include <ATen/Context.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "longbow/cli/commands.h"
#include "longbow/cli/compare_flags.h"
#include "longbow/cli/failure.h"
#include "longbow/cli/flags.h"
#include "longbow/cli/memory_guard.h"
#include "longbow/cli/score_flags.h"
#include "longbow/cli/threads.h"
#include "longbow/core/error.h"
#include "longbow/core/fields.h"
#include "longbow/core/interruption.h"
#include "longbow/core/leave.h"
#include "longbow/core/utf8.h"
#include "longbow/core/version.h"

namespace longbow::cli {
namespace {

void declare_table(CLI::App& app, Action& action) {
  static ListCommand list;
  auto* sub = declare(app, action, "list", "The mechanisms and what each promises", list);
  sub->add_flag("--json", list.json, "as JSON");
  sub->add_flag("--markdown", list.markdown, "as a Markdown table");
  add_examples(sub, {"list", "list --json"});

  static DescribeCommand describe;
  sub = declare(app, action, "describe",
                "A mechanism, an objective, a data set or a part of the config", describe);
  sub->add_option(
      "name", describe.name,
      "mechanism, objective, data set; run, data, model, train, start, pretrain, arena; "
      "config: all keys; without a name, everything that can be described");
  sub->add_flag("--json", describe.json, "as JSON");
  sub->add_flag("--markdown", describe.markdown, "the generated part of its page in docs/");
  add_examples(sub, {"describe", "describe linformer", "describe train"});

  static InitCommand init;
  sub = declare(app, action, "init",
                "Print a starter config that explains every key; without a name, list the choices",
                init);
  sub->add_option("name", init.name, "data set or objective");
  sub->add_option("file", init.file,
                  "your own file, for table, lines, parallel and questions: the config names it");
  add_examples(sub, {"init", "init recall > recall.yaml", "init table my.csv > my.yaml"});

  static DoctorCommand doctor;
  sub = declare(app, action, "doctor",
                "Show how the program was built and what this machine offers", doctor);
  sub->add_flag("--json", doctor.json, "as JSON");
  add_threads(sub);
  add_examples(sub, {"doctor"});
}

void declare_training(CLI::App& app, Action& action) {
  static TrainCommand train;
  auto* sub = declare(app, action, "train",
                      "Train one model; the last line printed is its run folder", train);
  sub->add_option("config", train.config,
                  "YAML or JSON file, `longbow init` prints one; with --resume also a run folder")
      ->required();
  add_set(sub, train.set);
  sub->add_option("--out", train.out, "run folder [default runs/TASK-MECHANISM-TIME]");
  sub->add_flag("--resume", train.resume, "continue from the newest checkpoint of the run");
  sub->add_flag("--dry-run", train.dry_run,
                "show parameters, memory and one step; writes no run folder");
  sub->add_option("--seed", train.seed, "instead of the config's seed")->check(at_least(0));
  add_device(sub, train.device);
  add_progress(sub, train.progress);
  const auto hidden = [](CLI::Option* option) { option->group(""); };  // what an arena says
  hidden(sub->add_option("--label", train.label));
  hidden(sub->add_option("--failure", train.failure));
  hidden(sub->add_option("--further", train.further));
  hidden(sub->add_option("--seconds-each", train.seconds_each));
  hidden(sub->add_flag("--measure", train.measure));
  add_examples(sub, {"train recall.yaml --out runs/recall",
                     "train recall.yaml --set model.attention=local --set train.max_steps=300",
                     "train runs/recall --resume"});

  static EvalCommand eval;
  sub = declare(app, action, "eval", "Score a finished run", eval);
  sub->add_option("run", eval.folder, "run folder, as `longbow train` prints it")->required();
  sub->add_option("--split", eval.split, "train, valid or test")->capture_default_str();
  sub->add_flag("--json", eval.json, "as JSON, with fractions instead of percent");
  add_device(sub, eval.device);
  add_examples(sub, {"eval runs/recall --split valid"});
}

std::string shown_type(const std::string& type) {
  if (type.starts_with("one of ")) return type.substr(7);
  if (type == "boolean") return "true|false";
  return type == "integer" ? "INT" : type == "number" ? "FLOAT" : "";
}

// One flag for each option, with `-` for `_`.
void add_options(CLI::App* sub, const std::vector<FieldDoc>& options,
                 std::map<std::string, std::string>& flags, const char* group) {
  for (const auto& option : options) {
    std::string flag = "--" + (option.name == "train" ? "kind" : option.name);
    std::replace(flag.begin(), flag.end(), '_', '-');
    sub->add_option_function<std::string>(
           flag, [&flags, name = option.name](const std::string& value) { flags[name] = value; },
           option.meaning)
        ->type_name(shown_type(option.type) + "=" + option.fallback)
        ->group(group);
  }
}
const char* const kDecoding = "Decoding; model.decoding of the run overrides the defaults shown";
void add_batches(CLI::App* sub, int64_t& batch_size, uint64_t& seed) {
  sub->add_option("--batch-size", batch_size, "texts generated at once")
      ->check(at_least(1))
      ->capture_default_str();
  sub->add_option("--seed", seed, "seed of the random draws (--method sample)")
      ->check(at_least(0))
      ->capture_default_str();
}

void declare_asking(CLI::App& app, Action& action) {
  static GenerateCommand generate;
  auto* sub =
      declare(app, action, "generate", "Continue texts with a causal language model", generate);
  sub->add_option("run", generate.folder, "run folder of objective causal_lm or perceiver_ar")
      ->required();
  sub->add_option(
      "--prompt", generate.prompt,
      "text to continue, in the symbols of the data; without one a text begins with the "
      "data's begin token, or with the first token of a random sample");
  sub->add_option("--file", generate.file,
                  "continue each line of it; - is stdin, answered line by line on a terminal");
  sub->add_option("--count", generate.count, "texts to begin, without a prompt")
      ->check(at_least(1))
      ->capture_default_str();
  add_options(sub, decoding_options(), generate.decoding, kDecoding);
  add_batches(sub, generate.batch_size, generate.seed);
  sub->add_flag("--json", generate.json, "one object per prompt");
  add_device(sub, generate.device);
  add_examples(sub, {"generate runs/markov --prompt \"w3 w0\" --max-length 20",
                     "generate runs/markov --count 5 --method sample --temperature 0.8"});

  static TranslateCommand translate;
  sub = declare(app, action, "translate",
                "Translate each line; several texts a line are shown as LINE ||| TEXT ||| SCORE",
                translate);
  sub->add_option("run", translate.folder, "run folder of objective translation")->required();
  sub->add_option("--file", translate.file,
                  "lines to translate; - is stdin, answered line by line on a terminal")
      ->capture_default_str();
  add_options(sub, decoding_options(), translate.decoding, kDecoding);
  add_batches(sub, translate.batch_size, translate.seed);
  sub->add_flag("--json", translate.json, "one object per line");
  add_device(sub, translate.device);
  add_examples(sub, {"translate runs/reverse --file sources.txt --method beam --beams 4"});

  static PredictCommand predict;
  sub = declare(app, action, "predict",
                "Predict each line of input, or the samples of the run's data", predict);
  sub->add_option("run", predict.folder,
                  "run folder of any objective but causal_lm, perceiver_ar and translation")
      ->required();
  sub->add_option("--file", predict.file,
                  "one input per line, pairs separated by a TAB; - is stdin, answered line by line "
                  "on a terminal [default -]");
  sub->add_option("--split", predict.split,
                  "instead of lines, the samples of train, valid or test of the run's data");
  sub->add_option("--limit", predict.limit, "only the first N inputs; 0 = all")
      ->check(at_least(0))
      ->capture_default_str();
  sub->add_flag("--json", predict.json, "one object per input, instead of columns");
  add_device(sub, predict.device);
  add_examples(sub, {"predict runs/listops", "predict runs/listops --file inputs.txt --json",
                     "predict runs/recall --split test --limit 3"});
}

void declare_showing(CLI::App& app, Action& action) {
  static MapsCommand maps;
  auto* sub = declare(app, action, "maps",
                      "Attention maps of a trained run, all heads in one picture", maps);
  sub->add_option("folder", maps.folder, "run folder")->required();
  sub->add_option("--out", maps.out, "SVG file to write")->required();
  sub->add_option("--json", maps.json, "write the numbers to this file");
  sub->add_option("--text", maps.text, "an input, instead of a sample of the run's data");
  sub->add_option("--split", maps.split, "train, valid or test")->capture_default_str();
  sub->add_option("--sample", maps.sample, "which sample of the split, from 0")
      ->check(at_least(0))
      ->capture_default_str();
  sub->add_option("--limit", maps.limit, "show only the first N queries; 0 = all")
      ->check(at_least(0))
      ->capture_default_str();
  add_device(sub, maps.device);
  add_examples(sub, {"maps runs/reverse --out maps.svg --sample 3",
                     "train recall.yaml --set model.attention=softmax --out runs/softmax",
                     "maps runs/softmax --out maps.svg"});

  static ReportCommand report;
  sub = declare(app, action, "report",
                "One HTML page, Markdown and CSV of an arena, a run or a bench", report);
  sub->add_option("source", report.folder, "arena folder, run folder or bench JSON")->required();
  sub->add_option("--out", report.out, "folder to write to [default the source's]");
  sub->add_flag("--force", report.force, "replace files of the same names");
  add_examples(sub, {"report runs/quick"});
}

// Subcommands of a subcommand, over one struct: its `action` is the name.
template <class Command>
auto actions_of(CLI::App* parent, Action& action, Command& command) {
  parent->require_subcommand(1);
  return [parent, &action, &command](const char* name, const char* help) {
    auto* child = parent->add_subcommand(name, help);
    child->callback([&action, &command, name] {
      command.action = name;
      action = [&command] { return run(command); };
    });
    return child;
  };
}

void declare_data(CLI::App& app, Action& action) {
  auto* data =
      app.add_subcommand("data", "Make, verify and inspect data sets; what is kept of them");
  add_examples(data,
               {"data make recall --out data/recall --set pairs=32", "data list multi30k",
                "data verify data/recall", "data stats data/recall", "data cache --unused 30"});
  static DataCommand command;
  const auto sub = actions_of(data, action, command);
  auto* list = sub("list", "All data sets, or one with its files and options");
  list->add_option("name", command.name,
                   "one data set: its objective, licence, publisher and files");
  auto* make = sub("make", "Generate a data set with manifest and checksums");
  make->add_option("name", command.name, "data set, see `longbow data list`")->required();
  make->add_option("--out", command.folder, "folder to write to")->required();
  make->add_option("--seed", command.seed, "of the generator")
      ->check(at_least(0))
      ->capture_default_str();
  make->add_option("--count", command.count, "samples in all: 96 % train, 2 % valid, 2 % test")
      ->check(at_least(1));
  make->add_flag("--force", command.force, "write into a folder that is not empty");
  make->add_option("--set", command.set, "KEY=VALUE, an option of the data set; may be repeated")
      ->allow_extra_args(false);
  for (auto* child : {sub("verify", "Check files against manifest.json and recompute every label"),
                      sub("stats", "Sizes, labels and lengths")})
    child->add_option("folder", command.folder, "folder of a data set")->required();
  auto* cache = sub("cache", "List the encoded texts and pictures that are kept, or remove some");
  cache->add_option("--folder", command.folder,
                    "that of data.cache [default LONGBOW_CACHE, or longbow in the user's cache]");
  cache->add_option("--remove", command.remove, "an entry, as it is listed; may be repeated")
      ->allow_extra_args(false);
  cache->add_option("--unused", command.unused, "remove what no run has read for so many days")
      ->check(CLI::NonNegativeNumber);
}

void declare_tokenizer(CLI::App& app, Action& action) {
  auto* tokenizer = app.add_subcommand("tokenizer", "Train, use and inspect tokenizers");
  add_examples(tokenizer, {"tokenizer train a.txt --kind wordpiece --out tokenizer.json",
                           "tokenizer encode --tokenizer tokenizer.json --json < a.txt"});
  static TokenizerCommand command;
  const auto sub = actions_of(tokenizer, action, command);
  auto* train = sub("train", "Learn a vocabulary; writes Hugging Face's tokenizer.json");
  train->add_option("files", command.files, "one text per line; - is stdin");
  train->add_option("--out", command.out, "file to write")->required();
  train->add_flag("--force", command.force, "replace the file");
  add_progress(train, command.progress);
  add_options(train, tokenizer_options(), command.options, "Training; lists with commas");
  auto* encode = sub("encode", "Tokens of each line");
  auto* decode = sub("decode", "Text of each line of ids");
  auto* info = sub("info", "Model, size, components and special tokens");
  for (auto* child : {encode, decode, info})
    child->add_option("--tokenizer", command.tokenizer, "file or folder")->required();
  for (auto* child : {encode, decode})
    child->add_option("--file", command.file, "lines to read; - is stdin")->capture_default_str();
  for (auto* child : {encode, info}) child->add_flag("--json", command.json, "as JSON");
  encode->add_flag("--pair", command.pair, "each line is two texts with a TAB between them");
  encode->add_flag("--plain", command.plain, "without the special tokens of a template");
  decode->add_flag("--special", command.special, "with special tokens");
}

void declare_folders(CLI::App& app, Action& action) {
  static ImportCommand from;
  auto* sub = declare(app, action, "import", "Read a Hugging Face BERT folder", from);
  sub->add_option("folder", from.folder, "folder with config.json and model.safetensors")
      ->required();
  sub->add_option("--out", from.out, "folder to write to")->required();
  sub->add_option("--attention", from.attention,
                  "a mechanism instead of softmax, \"{name: linformer, rank: 64}\"");
  sub->add_option("--seed", from.seed, "of weights that the folder does not have")
      ->check(at_least(0))
      ->capture_default_str();
  add_examples(sub, {"import bert-base-uncased --out bert",
                     "import bert-base-uncased --out fast --attention \"{name: linformer, rank: "
                     "128}\""});

  static ExportCommand to;
  sub = declare(app, action, "export",
                "Write a fine-tuned or imported BERT as Hugging Face's library reads it", to);
  sub->add_option("run", to.folder, "run folder of a BERT, or a folder that `longbow import` wrote")
      ->required();
  sub->add_option("--out", to.out, "folder to write to")->required();
  sub->add_option("--max-shard-bytes", to.max_shard_bytes,
                  "weights in files of at most so many bytes each; 0: in one")
      ->check(at_least(0))
      ->capture_default_str();
  add_examples(sub, {"export runs/topics --out topics-bert"});
}

std::string about() {
  return fmt::format("longbow {} (commit {}, {}, LibTorch {})", version(), commit(), compiler(),
                     TORCH_VERSION);
}

int fail(const std::string& message, int code) {
  const auto line = "longbow: " + message + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
  return code;
}

// The parser itself would only say that a subcommand is required.
void check_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> known;
  for (const auto* sub : app.get_subcommands({})) known.push_back(sub->get_name());
  if (std::find(known.begin(), known.end(), argv[1]) == known.end())
    throw UserError("unknown command " + quote(argv[1]), suggest(argv[1], known));
  const auto* sub = app.get_subcommand(argv[1]);
  if (!sub->get_subcommands({}).empty()) check_command(*sub, argc - 1, argv + 1);
}

int guarded(const Action& action) {
  try {
    const int code = action();
    flush_output();
    return code;
  } catch (...) {
    const auto failure = failure_of(std::current_exception());
    return fail(failure.text, failure.code);
  }
}

// A file that is opened while stdout is closed would get its number, and all that is printed.
void keep_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0)  // so that reading and writing go on failing
      ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

// The C library gives large blocks back to the system at once and asks for them again a moment
// later, page by page: tensors of tens of megabytes then cost more to allocate than to compute.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

// Runs before the OpenMP runtime starts, as nothing in main() or in a constructor would.
__attribute__((section(".preinit_array"),
               used)) void (*const before_anything)(int, char**, char**) = wait_passively;

}  // namespace
}  // namespace longbow::cli

int main(int argc, char** argv) {
  using namespace longbow::cli;
  keep_standard_streams();
  keep_freed_memory();
  guard_memory();
  at::globalContext().setAllowTF32CuDNN(
      false);  // float32 means float32; train.precision can say tf32
  CLI::App app("Efficient transformers in C++: train, compare and time attention mechanisms.",
               "longbow");
  app.set_version_flag("--version", about());
  app.require_subcommand(1);
  add_examples(&app, {"init recall > recall.yaml", "train recall.yaml --out runs/recall",
                      "predict runs/recall --split test --limit 3"});
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format("longbow: {}; see --help\n", longbow::one_line(error.what(), 1000));
  });
  Action action;
  declare_table(app, action);
  declare_training(app, action);
  declare_asking(app, action);
  declare_comparing(app, action);
  declare_showing(app, action);
  declare_data(app, action);
  declare_score(app, action);
  declare_tokenizer(app, action);
  declare_folders(app, action);
  longbow::leave(guarded([&] {
    check_command(app, argc, argv);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      std::ostringstream help;
      const int code = app.exit(error, help, std::cerr);
      fmt::print("{}", help.str());
      return code == 0 ? 0 : 2;
    }
    return action();
  }));
}
