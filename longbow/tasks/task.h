#pragma once
// What is learnt: a data set, a model, a loss, and what success is measured by.
#include <array>
#include <memory>
#include <string_view>

#include "longbow/core/config.h"
#include "longbow/data/feed/batch.h"
#include "longbow/data/readers/source.h"
#include "longbow/data/readers/symbols.h"
#include "longbow/models/bert/fine_tuned_bert.h"
#include "longbow/models/decoder/decoding.h"
#include "longbow/nn/contract/mixer.h"
#include "longbow/tasks/lanes.h"

namespace longbow {

// What the loss is a mean over: all targets alike, or samples, each of them a mean over its own
// targets.
enum class Normalise { targets, samples };
constexpr std::array<std::string_view, 2> names_of(Normalise) {
  return {"targets", "samples"};
}

struct TaskOptions {
  int64_t bucket = 1;  // sequences are padded to a multiple of this
  uint64_t seed = 1;
  at::Device device = at::kCPU;
  Normalise normalise = Normalise::targets;
  double label_smoothing = 0;  // in training; an evaluation has none
  int64_t lanes =
      0;  // rows of a batch, where they go on from one batch to the next; 0 = they do not
};

// Of one batch, on the device: nothing here waits for it.
struct Outcome {
  Tensor loss;   // the sum over what is counted, with its gradient
  Tensors sums;  // what metrics are made of, to be added up over batches: "loss", "weight", …
  // For metrics that need every sample: rows to be concatenated over the batches of an
  // evaluation. They are given to metrics() with the sums.
  Tensors rows = {};
};

struct Metric {
  std::string name;
  double value = 0;
  bool larger_is_better = true;
};

// The texts that a trained model is asked with, and those that it writes.
struct Texts {
  Symbols read = {}, written = {};
  int64_t longest = 0;         // tokens of an input
  int64_t holds = 0;           // tokens that a model which writes can read, its prompt included
  int64_t begin = 0, end = 0;  // ids that begin and end a written text, 0 = none
  Frame frame = {};            // around an input; of a prompt, which goes on, only before it
  int64_t hidden = 0;          // id that stands for what is to be guessed, 0 = there is none
  bool pairs = false;          // an input is two sequences
};

class Task {
 public:
  virtual ~Task() = default;
  virtual Part& model() = 0;
  virtual Outcome run(const Batch& batch, const Random& random) = 0;  // batch on the device
  // What is remembered of the rows of training batches, where they go on; null: nothing.
  virtual Lanes* lanes() { return nullptr; }
  // From sums over a whole split, on the CPU. The first is what weights are chosen by.
  virtual std::vector<Metric> metrics(const Tensors& sums) const = 0;
  // Every option of the model spelled out, and what identifies it in config.json.
  virtual Node model_config() const = 0;
  virtual Node model_card() const = 0;

  // What is asked of a trained model, of evaluation mode; the batch is on the device. A task has
  // what its objective's `command` needs, and fails at the rest.
  virtual Texts texts() const;
  // What it says of each sample: a map in the order to be shown, "target" last where one is known.
  virtual std::vector<Node> predict(const Batch& batch, const Random& random);
  // Samples of a split as an evaluation asks about them, with tokens hidden or replaced.
  virtual Batch corrupt(const Batch& batch, const Random& random) const;
  // What it writes behind each prompt or for each source, and how unless told otherwise.
  virtual Decoded write(const Batch& batch, const DecodingConfig& how, const Random& random);
  virtual const DecodingConfig& decoding() const;

  const Splits& splits() const { return splits_; }
  at::Device device() const { return options_.device; }
  int64_t parameter_count();
  // Attention weights of the runs to come are put there by layer; null: nobody looks.
  void show_maps(Tensors* maps) { maps_ = maps; }

 protected:
  Task(Splits splits, TaskOptions options) : splits_(std::move(splits)), options_(options) {}
  // What flows beside the tokens of a batch.
  virtual Context context_of(const Batch& batch, const Random& random) const;
  Symbols symbols() const {
    return {splits_.symbols, splits_.vocabulary, splits_.unknown, splits_.codec};
  }
  bool has_pairs() const { return splits_.train->has_second() || splits_.separator > 0; }
  Splits splits_;
  TaskOptions options_;
  Tensors* maps_ = nullptr;
};

// A place of a model that has an attention mechanism.
struct AttentionSite {
  // Which mechanism it has: what an arena places there; that of the model, unless its part names
  // its own; always what the config says.
  enum class Choice { free, follows, fixed };
  std::string name = {};          // empty where a model has only this one
  std::string path = {};          // that the names of its modules begin with
  std::string part = {};          // of the model's config that holds it; empty: the model itself
  std::string key = "attention";  // in that part; empty: none, it is always softmax
  Choice choice = Choice::free;
  // What a mechanism must promise, to be placed here by an arena; null: nothing.
  bool (*needs)(const Promises&) = nullptr;
  std::string reads = {};    // what its maps are about, where it is not the tokens of a sample
  std::string queries = {};  // what the rows of its maps are, where these are not tokens
};

// A kind of task: reads the model part of a config, strictly. One source file in objectives/ is one
// row; CMake collects them.
struct Objective {
  std::string name, description;
  std::string command = "predict";  // that asks a trained model: predict, generate, translate
  // In the order in which a sample meets them.
  std::vector<AttentionSite> sites = {AttentionSite()};
  // What can be had of the splits without a model; null: nothing to compare with.
  std::function<std::vector<Baseline>(const Splits&)> baselines = {};
  bool pretrains = false;          // an encoder may learn it before its task
  bool causal = false;             // its encoder is causal, whatever that of another model is
  bool carries = false;            // rows of its batches may go on from one batch to the next
  BertHead bert = BertHead::none;  // as which Hugging Face's library computes the same
  Recipe recipe = {};              // where no data set is made for it

  // What follows is filled in by objective_of().
  std::vector<FieldDoc> options = {};
  // The model part of a config with what is said once for several parts said in each of them.
  std::function<Node(const Node& model)> complete = {};
  // Refuses a model that cannot be built, before any data is opened.
  std::function<void(const Node& model)> check = {};
  // The same with the data at hand, which is padded to a multiple of `bucket`.
  std::function<void(const Splits&, const Node& model, int64_t bucket)> check_data = {};
  std::function<std::unique_ptr<Task>(const Splits&, const Node& model, const TaskOptions&)> make =
      {};
};
const std::vector<Objective>& objectives();
// UserError with the nearest names when there is none.
const Objective& find_objective(const std::string& name, const Place& place = {});

// The longest padded sequence; fills in a model's limit of 0 and refuses one that is too low.
void fit_length(int64_t& max_length, const Splits& splits, int64_t bucket);

// Cross-entropy of logits [..., K] at targets [...] (kIgnore: none), with the sums "loss",
// "weight", "correct" and "count".
Outcome classification_loss(const Tensor& logits, const Tensor& targets, int64_t samples,
                            const TaskOptions& options, bool training);

// What modules add to the loss is a mean already: it counts once for everything counted.
Outcome with_extra_loss(Outcome outcome, const Context& context);

// A model's type, what it is the size of, and the names of its classes where they have any.
Node card(const std::string& type, const std::vector<std::pair<std::string, int64_t>>& sizes,
          const std::vector<std::string>& labels = {});

double sum_of(const Tensors& sums, const std::string& name);
double mean_of(const Tensors& sums, const std::string& name, const std::string& over);

// Those of the objective, and those of the data set that have the same metric; none where the
// objective has none.
std::vector<Baseline> baselines(const DataConfig& config, const std::string& objective,
                                const Splits& splits);

// The mechanism that a model part of a config names; several are joined with '+'.
std::string mechanism_label(const Node& model);

}  // namespace longbow
