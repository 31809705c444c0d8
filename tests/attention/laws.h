#pragma once
// What every mechanism keeps to, whatever it computes. A law is a function of a subject, so that
// the same function runs on every row of the table, where it must hold, and on mechanisms broken on
// purpose, where it must not.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "longbow/core/config.h"
#include "longbow/nn/contract/mixer.h"
#include "tests/support/tensor.h"

namespace longbow {

struct Subject {
  std::string name;       // linformer_headwise: as it is called in the list of tests
  std::string mechanism;  // linformer: as it is called in the table
  Promises promises;
  Node options;  // every option spelled out
  std::function<Mixer(const Site&, const Node& options)> make;
};
std::ostream& operator<<(std::ostream& stream, const Subject& subject);

// The default options and each variant of every row.
std::vector<Subject> subjects();

// What a law found: nothing, or the first few lines of what is wrong.
class Findings {
 public:
  void near(const std::string& what, const Tensor& got, const Tensor& want, Tolerance tolerance);
  void equal(const std::string& what, const Tensor& got, const Tensor& want) {
    near(what, got, want, kExact);
  }
  void zero(const std::string& what, const Tensor& got, double tolerance = 0);
  void finite(const std::string& what, const Tensor& got);
  void that(bool holds, const std::string& what);
  testing::AssertionResult verdict() const;

 private:
  std::vector<std::string> lines_;
};

// A module as the laws look at it: evaluation mode, every parameter moved off its initial value (a
// zero bias hides mistakes), with the parameters that it keeps in the stack.
struct Built {
  Mixer mixer;
  std::shared_ptr<Shared> shared;
  Site site;
  at::Device device = at::kCPU;

  std::vector<Leaf> parameters() const;
  std::vector<Leaf> buffers() const;
  std::vector<Tensor> leaves(const Tensor& x) const;  // x and every parameter
  // Standard normal numbers, float64, on the module's device.
  Tensor random(at::IntArrayRef shape, uint64_t seed) const;
  // Runs the mixer; the context starts from `mask`, wherever that is, and `memory`.
  Tensor operator()(const Tensor& x, const Mask& mask = {}, const Tensor& memory = {}) const;
};
struct Build {
  bool cross = false;
  int64_t max_length = 128;
  uint64_t seed = 11;
  double dropout = 0;  // where the mechanism has that option
  at::ScalarType type = at::kDouble;
  at::Device device = at::kCPU;
  Shape shape = {.width = 24, .heads = 2, .head_width = 8, .memory_width = 20};
};
Built build(const Subject& subject, const Build& how = {});
void cast(const Built& built, at::ScalarType type);

// The masks that a subject promises to work under: causal, not causal, or both.
std::vector<Mask> modes(const Promises& promises);
std::string text_of(const Mask& mode);

Mask moved(Mask mask, at::Device device);

// Real tokens first, of these lengths; and real tokens anywhere.
Mask right_padded(const Mask& mode, std::vector<int64_t> lengths, int64_t longest);
Mask ragged(const Mask& mode, const Tensor& keep);
Tensor some_holes(int64_t batch, int64_t tokens,
                  uint64_t seed);  // [B, N] bool, at least one real token a row

// d (f . weights) / d leaves, zeros where a leaf has no influence. The weights are moved to f's
// device and type.
std::vector<Tensor> gradients(const Tensor& f, const Tensor& weights,
                              const std::vector<Tensor>& leaves);

// The largest relative error of rounding a number to a type: 2^-53, 2^-24, 2^-11 or 2^-8.
double unit_roundoff(at::ScalarType type);

struct Law {
  std::string sentence;
  // Why the subject need not keep this law, or "" when it must.
  std::function<std::string(const Promises&)> exempt;
  testing::AssertionResult (*holds)(const Subject&, at::Device);
};
// law.holds(subject, device), where an error thrown on the way is a finding too.
testing::AssertionResult keeps(const Subject& subject, const Law& law,
                               at::Device device = at::kCPU);

extern const Law kAnyLengthIsTaken, kRowsOfABatchAreIndependent, kPermutedTokensGivePermutedOutputs,
    kEvaluationIsDeterministic, kAMemoryMayHaveAnotherLengthAndWidth,
    kAMemoryThatIsNotReadIsRefused;                         // law_rows.cpp
extern const Law kPaddingIsInvisible, kAnEmptyRowIsFinite;  // law_padding.cpp
extern const Law kTheFutureIsInvisible;                     // law_future.cpp
extern const Law kAnySplitIntoExtensionsIsTheForwardPass, kLanesMoveAndRestart,
    kAStateStaysWhereItIs, kAMemoryIsReadWhileDecoding;  // law_decoding.cpp
extern const Law kGradientsAreThoseOfDifferences,
    kRecomputationGivesTheSameGradients;                    // law_gradient.cpp
extern const Law kEqualsItsOracle, kASavedModuleIsTheSame;  // law_values.cpp
extern const Law kLessPrecisionIsNearby, kLessPrecisionIsNearbyUnderPadding,
    kLessPrecisionIsNearbyWithAMemory, kLessPrecisionIsNearbyWhileDecoding;  // law_precision.cpp
extern const Law kALongSequenceHidesItsPadding, kALongSequenceDecodes;       // law_long.cpp
extern const Law kCostGrowsAsPromised, kLaunchesGrowAsPromised,
    kAMemoryIsReadAtOneCost;  // law_cost.cpp
#ifdef LONGBOW_CUDA
extern const Law kTheGpuAgrees, kACapturedGraphReplays;  // law_cuda.cpp
#endif

}  // namespace longbow
