// What a training step of one layer would start and move on a GPU, counted on an emulated one: the
// operators and the bytes that they read and write, each tensor once. width 512, 8 heads, 2
// sequences, bfloat16.
//   longbow_traffic MECHANISM [TOKENS [causal]]       MECHANISM: ssd, '{name: local, window: 256}'
#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <map>

#include "longbow/attention/mechanism.h"
#include "longbow/core/leave.h"

namespace longbow {
namespace {

constexpr int64_t kBatch = 2, kWidth = 512, kHeads = 8;

struct Count {
  int64_t calls = 0;
  double bytes = 0;
};
std::map<std::string, Count> counts;

// An operator that runs, and whether it calls others that do its work.
struct Running {
  std::string name;
  bool calls_others = false;
  double bytes = 0;
};
thread_local std::vector<Running> running;

// An expanded tensor is read once.
double bytes(const Tensor& x) {
  if (!x.defined() || !x.is_cuda()) return 0;
  auto size = static_cast<double>(x.element_size());
  for (int64_t d = 0; d < x.dim(); ++d)
    if (x.stride(d) != 0) size *= static_cast<double>(x.size(d));
  return size;
}
double bytes(c10::ArrayRef<c10::IValue> values) {
  double sum = 0;
  for (const auto& value : values) {
    if (value.isTensor()) sum += bytes(value.toTensor());
    if (value.isTensorList())
      for (const Tensor& x : value.toTensorVector()) sum += bytes(x);
  }
  return sum;
}

bool only_views(const at::RecordFunction& called) {
  const auto name = called.operator_name();
  const auto op = name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  if (!op || name->name.starts_with("aten::empty")) return true;
  return std::ranges::any_of(op->schema().returns(), [](const c10::Argument& result) {
    return result.alias_info() && !result.alias_info()->isWrite();
  });
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& called) {
  running.push_back({called.name(), false, bytes(called.inputs())});
  return nullptr;
}

// Kernels of ours may copy, clear or add up what they read or made; then both count.
bool prepares(const std::string& name) {
  constexpr std::array<std::string_view, 8> kMinor = {
      "aten::copy_", "aten::clone",    "aten::contiguous", "aten::to",
      "aten::sum",   "aten::_to_copy", "aten::zero_",      "aten::fill_"};
  return std::ranges::find(kMinor, name) != kMinor.end();
}

void end(const at::RecordFunction& called, at::ObserverContext*) {
  auto own = running.back();
  running.pop_back();
  own.bytes += bytes(called.outputs());
  if (own.bytes == 0 || only_views(called)) return;
  if (!running.empty() && !(running.back().name.starts_with("longbow::") && prepares(own.name)))
    running.back().calls_others = true;
  if (own.calls_others) return;
  auto& count = counts[own.name];
  ++count.calls;
  count.bytes += own.bytes;
}

void step(MixerImpl& mixer, int64_t tokens, bool causal, at::Device device) {
  const auto random = Random::from_seed(1, 0, device);
  const auto drawn = [&](const char* name) {
    return random.normal({kBatch, tokens, kWidth}, name).to(at::kBFloat16);
  };
  const auto x = drawn("x").requires_grad_(), dy = drawn("y");
  at::addThreadLocalCallback(at::RecordFunctionCallback(begin, end)
                                 .needsInputs(true)
                                 .needsOutputs(true)
                                 .scopes({at::RecordScope::FUNCTION}));
  Context context = {.mask = {.causal = causal}, .random = random};
  const auto y = mixer(x, context);
  std::vector<Tensor> leaves = mixer.parameters();
  leaves.push_back(x);
  (void)torch::autograd::grad({y}, leaves, {dy}, {}, false, /*allow_unused=*/true);
  at::clearThreadLocalCallbacks();
}

void print() {
  Count all;
  std::vector<std::pair<std::string, Count>> rows(counts.begin(), counts.end());
  for (const auto& [name, count] : rows) {
    all.calls += count.calls;
    all.bytes += count.bytes;
  }
  std::ranges::sort(rows,
                    [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  fmt::print("{:.0f} MB in {} operators\n", all.bytes / 1e6, all.calls);
  for (const auto& [name, count] : rows)
    fmt::print("{:10.2f} MB {:4} x {}\n", count.bytes / 1e6, count.calls, name);
}

int64_t tokens_of(const std::string& text) {
  const int64_t tokens = as_integer(parse_yaml(text, "TOKENS"), "TOKENS");
  if (tokens < 1) throw UserError("TOKENS is " + text, "at least one is needed");
  return tokens;
}

int run(int count, char** arguments) {
  const bool causal = count > 3 && std::string_view(arguments[3]) == "causal";
  if (count < 2 || count > 4 || (count == 4 && !causal)) {
    fmt::print(stderr, "usage: longbow_traffic MECHANISM [TOKENS [causal]]\n");
    return 2;
  }
  const int64_t tokens = count > 2 ? tokens_of(arguments[2]) : 1024;
  const Site site = {.shape = {.width = kWidth, .heads = kHeads, .max_length = tokens},
                     .init = "xavier"};
  const auto mixer = make_mixer(parse_yaml(arguments[1], "MECHANISM"), site);
  const at::Device device("cuda:0");
  mixer->to(device, at::kBFloat16);
  mixer->train();
  step(*mixer, tokens, causal, device);
  print();
  return 0;
}

}  // namespace
}  // namespace longbow

int main(int count, char** arguments) {
  try {
    longbow::leave(longbow::run(count, arguments));
  } catch (const c10::Error& error) {
    fmt::print(stderr, "{}\n", error.what_without_backtrace());
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
  longbow::leave(2);
}
