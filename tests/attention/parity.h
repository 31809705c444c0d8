#pragma once
// What public implementations compute, recorded with their inputs and weights. A row reads its
// cases in parity_<row>.cpp and registers the reader by the beginning of their names; options come
// from the metadata of a case, so that other folders with other sizes and options are read too.
#include <ATen/ATen.h>

#include <filesystem>
#include <set>

#include "longbow/attention/mechanism.h"
#include "longbow/tensors/safetensors.h"
#include "tests/support/tensor.h"

namespace longbow::parity {

struct Case {
  std::string name;
  Node config;
  Tensors tensors;

  bool has(const std::string& key) const { return tensors.count(key) > 0; }
  Tensor at(const std::string& key) const { return tensors.at(key).to(at::kDouble); }
  // Of the config; the fallback where a case does not say.
  int64_t integer(const std::string& key) const;
  int64_t integer(const std::string& key, int64_t fallback) const;
  double number(const std::string& key, double fallback) const;
  bool flag(const std::string& key, bool fallback = false) const;
  std::string text(const std::string& key, const std::string& fallback = "") const;
};

// A module in float64 whose parameters and buffers are set by name; what is not set is zero.
class Weights {
 public:
  explicit Weights(std::shared_ptr<torch::nn::Module> module);
  // `recorded` names the tensor in a case whose gradient is that of this parameter.
  void set(const std::string& name, const Tensor& value, const std::string& recorded = "");
  // The weight and the bias of a projection called `name` from w<suffix> and b<suffix>, as far as
  // the case has them.
  void set_projection(const Case& c, const std::string& name, const std::string& suffix);
  Tensor gradient(const std::string& name) const;
  void expect_gradients(const Case& c) const;  // of all parameters that were set with a name

 private:
  std::shared_ptr<torch::nn::Module> module_;
  std::map<std::string, std::string> recorded_;
};

class Layer : public Weights {
 public:
  Layer(const std::string& mechanism, const Site& site, const std::string& options)
      : Layer(make_mixer(mechanism, site, options)) {}
  // A context with a name goes on to the next layer, with what this one carries.
  Tensor operator()(const Tensor& x, Context& context) { return (*mixer_)(x, context); }
  Tensor operator()(const Tensor& x, Context&& context) { return (*mixer_)(x, context); }

 private:
  explicit Layer(const Mixer& mixer) : Weights(mixer), mixer_(mixer) {}
  Mixer mixer_;
};

// Values to 1e-12; gradients, where recorded, to the float32 they were rounded to.
void expect_gradient(const Case& c, const std::string& name, const Tensor& got);
// `rows` 1 where a query is real, or undefined: padded ones are not compared and carry no gradient.
void expect_output(const Case& c, const Tensor& got, const Tensor& rows, double precision = 1e-12);
// Whether the recorded gradients are those of the real rows: where the probe weighs padded rows,
// which are not ours to match, they are not.
bool probes_only(const Case& c, const Tensor& rows);

Mask mask_of(const Case& c);

// Cases with x, wq, wk, wv, wo and whatever biases there are; `more` sets what else the layer has.
using Setter = std::function<void(Layer&)>;
struct Compared {
  bool every_query = false;  // padded ones read the real keys as others do, and are compared too
  Tensor rows = {};  // [1, N, 1]: 1 for the queries to compare, without gradients; undefined = all
  std::map<std::string, std::string> gradients = {};  // of the parameter, by its recorded name
  std::optional<Rotary> rotary = {};                  // positions of queries and keys
  Tensors choices = {};                               // discrete ones, by their keys in a layer
  Setter after = {};  // sees the layer with its gradients, where those can be compared
};
void check_projected(const Case& c, const std::string& mechanism, const std::string& options,
                     const Setter& more = {}, const Compared& compared = {});
// Cases with q, k, v [B, H, N, D] (or [B, N, H, D] where the config says so) and no projections.
// Keys of their own length are a memory.
void check_core(const Case& c, const std::string& mechanism, const std::string& options,
                const Setter& more = {}, const Compared& compared = {});
// Cases of a whole block, LN2(u + W2 act(W1 u)) with u = LN1(x + mixer(x)).
void check_block(const Case& c, const std::string& mechanism, const std::string& options);
// Whole stacks of x-transformers: attention and feed-forward layers in turn, by the library's
// names.
void check_stack(const Case& c, const std::string& mechanism, const std::string& options);

// By the beginning of a case's name; of all readers and reasons the longest beginning decides.
using Check = std::function<void(const Case&)>;
struct Reader {
  Reader(const std::string& beginning, std::vector<Check> checks);
};
struct SetAside {
  SetAside(const std::string& beginning, const std::string& reason);
};

struct Entry {
  std::string beginning;
  std::vector<Check> checks;
  std::string reason;  // of a case that is not reproduced, or only in part
};
const Entry* find_entry(const std::string& name);  // null when nobody knows the case
std::set<std::string> readers();                   // their beginnings

// Checks the cases below the folder and returns their names.
std::vector<std::string> check_folder(const std::filesystem::path& folder);

}  // namespace longbow::parity
