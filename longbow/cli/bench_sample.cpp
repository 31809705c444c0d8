#include "longbow/cli/bench_sample.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "longbow/arena/growth.h"
#include "longbow/arena/placement.h"
#include "longbow/attention/mechanism.h"
#include "longbow/cli/bench_peaks.h"
#include "longbow/cli/device.h"
#include "longbow/cli/failure.h"
#include "longbow/core/error.h"
#include "longbow/tensors/meter.h"
#include "longbow/tensors/profile.h"
#include "longbow/tensors/replay.h"
#include "longbow/train/run/throughput.h"
#ifdef LONGBOW_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace longbow::cli {
namespace {

// What earlier samples left in the caches of the allocator, which keeps them apart by stream.
void release_cached(at::Device device) {
#ifdef LONGBOW_CUDA
  if (device.is_cuda()) c10::cuda::CUDACachingAllocator::emptyCache();
#else
  (void)device;
#endif
}

int64_t sequences(const BenchCommand& command, int64_t length) {
  return command.tokens > 0 ? std::max<int64_t>(1, command.tokens / length) : command.batch;
}

// One layer at one length, with random input. Decoding is one token behind a prefix of that length.
class Layer {
 public:
  Layer(const BenchSubject& subject, const BenchCommand& command, int64_t length)
      : device_(parse_device(command.device)), type_(parse_bench_dtype(command.dtype)) {
    site_ = {.shape = {.width = command.width, .heads = command.heads, .max_length = length + 1},
             .init = "xavier",
             .seed = 1,
             .shared = std::make_shared<Shared>()};
    mixer_ = make_mixer(subject.options, site_);
    causal_ = is_causal(subject, command);
    mixer_->to(device_, type_);
    site_.shared->to(device_, type_);
    x_ = Random::from_seed(2)
             .normal({sequences(command, length), length, command.width}, "input")
             .to(device_, type_);
    gradient_ = at::ones_like(x_);
    random_ = Random::from_seed(3, 0, device_);
  }

  void forward() {
    at::NoGradGuard no_grad;
    auto context = whole();
    (*mixer_)(x_, context);
  }

  void training() {
    auto x = x_.detach().requires_grad_();
    auto context = whole();
    (*mixer_)(x, context).backward(gradient_);
    mixer_->zero_grad();
  }

  void prefill() {
    at::NoGradGuard no_grad;
    Context context = {.mask = {.causal = true}};
    mixer_->start(state_, x_.size(0), x_.size(1) + 1, context);
    mixer_->extend(x_, state_, context);
  }

  void decode() {  // a copy of the state's handles, so that every repetition decodes the same token
    at::NoGradGuard no_grad;
    Context context = {.mask = {.causal = true}};
    State state = state_;
    mixer_->extend(x_.narrow(1, 0, 1), state, context);
  }

  // Root mean square error against the same weights in float64, relative to the output.
  std::optional<double> error(const BenchSubject& subject) {
    try {
      return relative_error(subject);
    } catch (const c10::OutOfMemoryError&) {
      return {};
    }
  }

  at::Device device() const { return device_; }

 private:
  // Without a causal mask, where the mechanism can do without.
  Context whole() const { return {.mask = {.causal = causal_}, .random = random_}; }

  double relative_error(const BenchSubject& subject) {
    at::NoGradGuard no_grad;
    auto exact = make_mixer(subject.options, site_);
    exact->to(device_, at::kDouble);
    for (const auto& entry : exact->named_parameters())
      Tensor(entry.value()).copy_(mixer_->named_parameters()[entry.key()]);
    site_.shared->to(device_, at::kDouble);
    auto theirs = whole(), ours = whole();  // what one carries to a next layer is not for the other
    const auto want = (*exact)(x_.to(at::kDouble), theirs);
    site_.shared->to(device_, type_);
    const auto got = (*mixer_)(x_, ours).to(at::kDouble);
    return ((got - want).norm() / want.norm().clamp_min(1e-300)).item<double>();
  }

  at::Device device_;
  at::ScalarType type_;
  bool causal_ = false;
  Site site_;
  Mixer mixer_;
  Tensor x_, gradient_;
  Random random_;
  State state_;
};

bool profiles(const BenchSample& sample, const BenchCommand& command) {
  return command.profile && sample.length == std::ranges::max(command.lengths);
}

void set_times(BenchSample& result, const std::vector<double>& times) {
  result.median = arena::quantile(times, 0.5);
  result.p20 = arena::quantile(times, 0.2);
  result.p80 = arena::quantile(times, 0.8);
}

void time_layer(BenchSample& result, const BenchSubject& subject, const BenchCommand& command) {
  const auto& mode = result.mode;
  result.tokens = sequences(command, result.length) * (mode == "decode" ? 1 : result.length);
  Layer layer(subject, command, result.length);
  if (mode == "decode") layer.prefill();
  const std::function<void()> body = mode == "forward" ? [&] { layer.forward(); }
                                     : mode == "training"
                                         ? std::function<void()>([&] { layer.training(); })
                                         : [&] { layer.decode(); };
  body();
  const auto usage = measure(body, layer.device());
  result.peak_bytes = static_cast<double>(usage.peak_bytes);
  result.work = {usage.launches, usage.operations, usage.moved_bytes};
  std::vector<double> times, processor;
  const auto replay = make_replay(layer.device(), command.graphs);
  const auto call = [&] { replay->run("call", body); };
  if (replay->captures())
    for (int i = 0; i < 3; ++i) call();  // as it is, captured, replayed
  for (int64_t i = 0; i < command.repetitions; ++i) {
    const auto seconds = timed(call, layer.device());
    times.push_back(seconds.clock);
    processor.push_back(seconds.processor);
  }
  set_times(result, times);
  result.processor = arena::quantile(processor, 0);
  if (profiles(result, command)) result.profile = profile(body, layer.device()).text(24);
  if (mode == "forward") result.error = layer.error(subject);
}

void time_model(BenchSample& result, const BenchSubject& subject, const BenchCommand& command) {
  const auto config = bench_model(subject, command);
  const auto device = parse_device(command.device);
  const bool writes = result.mode == kWritingMode;
  const auto cost = writes ? measured_decoding(config, result.length, command.repetitions, device,
                                               command.graphs, profiles(result, command))
                           : measured_step(config, result.length, command.repetitions, device,
                                           profiles(result, command));
  result.tokens =
      config.train.sampler.batch_size * (writes ? 1 : config.train.accumulate * result.length);
  result.profile = cost.profile;
  result.peak_bytes = cost.peak_bytes;
  set_times(result, cost.seconds);
  result.processor = arena::quantile(cost.seconds, 0);
}

}  // namespace

bool is_causal(const BenchSubject& subject, const BenchCommand& command) {
  return command.causal ||
         !mechanism_of(subject.options).promises(options_of(subject.options)).bidirectional;
}

RunConfig bench_model(const BenchSubject& subject, const BenchCommand& command) {
  auto tree = load_config(command.config);
  for (const auto& assignment : command.set) assign(tree, assignment);
  const auto *model = tree.find("model"), *objective = tree.find("objective");
  tree["model"] = arena::placed(subject.options, model ? *model : Node::map(),
                                objective ? objective->text : "classification")
                      .model;
  return read_model_config(tree);
}

at::ScalarType parse_bench_dtype(const std::string& text) {
  if (text == "float32") return at::kFloat;
  if (text == "bfloat16") return at::kBFloat16;
  if (text == "float64") return at::kDouble;
  throw UserError(Place{"--dtype", 0}, "unknown dtype '" + text + "'",
                  "one of: float32, bfloat16, float64");
}

BenchSample bench_sample(const BenchSubject& subject, const BenchCommand& command,
                         const std::string& mode, int64_t length) {
  BenchSample result = {.label = subject.label, .mode = mode, .length = length};
  release_cached(parse_device(command.device));
  try {
    (command.config.empty() ? time_layer : time_model)(result, subject, command);
  } catch (...) {
    const auto failure = failure_of(std::current_exception());
    result.status = failure.out_of_memory ? "OOM" : "FAIL";
    result.reason = failure.text;
  }
  return result;
}

}  // namespace longbow::cli
