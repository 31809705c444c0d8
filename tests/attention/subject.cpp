#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/attention/mechanism.h"
#include "tests/attention/laws.h"

namespace longbow {
namespace {

// The laws' tensors are too small to share between threads, and float32 means float32 also in a
// convolution on a GPU.
class Plain : public testing::Environment {
  void SetUp() override {
    at::set_num_threads(1);
    at::globalContext().setAllowTF32CuDNN(false);
  }
};
const auto* const plain = testing::AddGlobalTestEnvironment(new Plain);

Subject subject_of(const Mechanism& row, const Variant& variant) {
  const auto options =
      variant.options.empty() ? Node::map() : parse_yaml(variant.options, row.name);
  return {.name = variant.name.empty() ? row.name : row.name + "_" + variant.name,
          .mechanism = row.name,
          .promises = row.promises(options),
          .options = row.resolve(options),
          .make = [row](const Site& site, const Node& given) {
            auto mixer = row.mixer(site, given);
            mixer->label(
                {.name = row.name, .promises = row.promises(given), .others = mechanisms_that});
            return mixer;
          }};
}

std::vector<Leaf> leaves_of(const torch::OrderedDict<std::string, Tensor>& tensors,
                            const std::string& prefix) {
  std::vector<Leaf> leaves;
  for (const auto& item : tensors) leaves.push_back({prefix + item.key(), item.value()});
  return leaves;
}

}  // namespace

std::ostream& operator<<(std::ostream& stream, const Subject& subject) {
  return stream << subject.name;
}

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const auto& row : mechanisms()) {
    all.push_back(subject_of(row, {}));
    for (const auto& variant : row.variants) all.push_back(subject_of(row, variant));
  }
  return all;
}

void Findings::near(const std::string& what, const Tensor& got, const Tensor& want,
                    Tolerance tolerance) {
  const auto result = near_tensor(got, want, tolerance);
  that(result, what + ": " + result.message());
}

void Findings::zero(const std::string& what, const Tensor& got, double tolerance) {
  near(what, got, at::zeros_like(got), {.absolute = tolerance});
}

void Findings::finite(const std::string& what, const Tensor& got) {
  that(got.isfinite().all().item<bool>(), what + " is not finite");
}

void Findings::that(bool holds, const std::string& what) {
  if (!holds) lines_.push_back(what);
}

testing::AssertionResult Findings::verdict() const {
  constexpr size_t kShown = 8;
  if (lines_.empty()) return testing::AssertionSuccess();
  auto failure = testing::AssertionFailure();
  for (size_t i = 0; i < std::min(kShown, lines_.size()); ++i) failure << "\n  " << lines_[i];
  if (lines_.size() > kShown) failure << "\n  and " << lines_.size() - kShown << " more";
  return failure;
}

testing::AssertionResult keeps(const Subject& subject, const Law& law, at::Device device) {
  auto verdict = testing::AssertionSuccess();
  const auto error = error_of([&] { verdict = law.holds(subject, device); });
  return error.empty() ? verdict : testing::AssertionFailure() << "it threw: " << error;
}

std::vector<Leaf> Built::parameters() const {
  auto all = leaves_of(mixer->named_parameters(), "");
  for (auto& leaf : leaves_of(shared->named_parameters(), "shared.")) all.push_back(leaf);
  return all;
}

std::vector<Leaf> Built::buffers() const {
  auto all = leaves_of(mixer->named_buffers(), "");
  for (auto& leaf : leaves_of(shared->named_buffers(), "shared.")) all.push_back(leaf);
  return all;
}

std::vector<Tensor> Built::leaves(const Tensor& x) const {
  std::vector<Tensor> all = {x};
  for (const auto& leaf : parameters()) all.push_back(leaf.tensor);
  return all;
}

Tensor Built::random(at::IntArrayRef shape, uint64_t seed) const {
  return random_normal(shape, seed).to(device);
}

Tensor Built::operator()(const Tensor& x, const Mask& mask, const Tensor& memory) const {
  Context context = {
      .mask = moved(mask, device), .memory = memory, .random = Random::from_seed(5, 0, device)};
  return (*mixer)(x, context);
}

Built build(const Subject& subject, const Build& how) {
  const auto shared = std::make_shared<Shared>();
  Site site = {
      .shape = how.shape, .path = "laws", .init = "xavier", .cross = how.cross, .seed = how.seed};
  site.shape.max_length = how.max_length;
  site.shared = shared;
  Node options = subject.options;
  if (how.dropout > 0 && options.find("dropout")) options["dropout"] = Node::number(how.dropout);
  const Built built = {subject.make(site, options), shared, site, how.device};
  built.mixer->eval();
  const at::NoGradGuard no_grad;
  uint64_t seed = 1000 * how.seed;
  for (auto& leaf : built.parameters())
    leaf.tensor.add_(random_normal(leaf.tensor.sizes(), ++seed).to(leaf.tensor.scalar_type()), 0.1);
  for (const auto& leaves : {built.parameters(), built.buffers()})
    for (const auto& leaf : leaves) leaf.tensor.set_data(leaf.tensor.to(how.device));
  cast(built, how.type);
  return built;
}

void cast(const Built& built, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  for (const auto& leaves : {built.parameters(), built.buffers()})
    for (const auto& leaf : leaves)
      if (leaf.tensor.is_floating_point()) leaf.tensor.set_data(leaf.tensor.to(type));
}

std::vector<Mask> modes(const Promises& promises) {
  std::vector<Mask> all;
  if (promises.bidirectional) all.push_back({});
  if (promises.future != Future::refused) all.push_back({.causal = true});
  return all;
}

std::string text_of(const Mask& mode) {
  return mode.causal ? "causal" : "bidirectional";
}

double unit_roundoff(at::ScalarType type) {
  return AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, type, "unit_roundoff", [&] {
    return static_cast<double>(std::numeric_limits<scalar_t>::epsilon()) / 2;
  });
}

Mask moved(Mask mask, at::Device device) {
  if (mask.keep.defined()) mask.keep = mask.keep.to(device);
  if (mask.query_keep.defined()) mask.query_keep = mask.query_keep.to(device);
  return mask;
}

Mask right_padded(const Mask& mode, std::vector<int64_t> lengths, int64_t longest) {
  auto mask = Mask::from_lengths(at::tensor(lengths, at::kLong), longest);
  mask.causal = mode.causal;
  return mask;
}

Mask ragged(const Mask& mode, const Tensor& keep) {
  auto mask = Mask::from_keep(keep);
  mask.causal = mode.causal;
  return mask;
}

Tensor some_holes(int64_t batch, int64_t tokens, uint64_t seed) {
  auto keep = random_normal({batch, tokens}, seed) > 0;
  keep.select(1, tokens / 2).fill_(true);
  return keep;
}

std::vector<Tensor> gradients(const Tensor& f, const Tensor& weights,
                              const std::vector<Tensor>& leaves) {
  auto found = torch::autograd::grad({(f * weights.to(f.device(), f.scalar_type())).sum()}, leaves,
                                     {}, std::nullopt, false, /*allow_unused=*/true);
  for (size_t i = 0; i < found.size(); ++i)
    if (!found[i].defined()) found[i] = at::zeros_like(leaves[i]);
  return found;
}

}  // namespace longbow
