// What is computed: the definition, in less precision, and after saving and loading.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "longbow/tensors/safetensors.h"
#include "tests/attention/laws.h"
#include "tests/support/oracle.h"

namespace longbow {
namespace {

std::string nobody(const Promises&) {
  return "";
}

testing::AssertionResult equals_its_oracle(const Subject& subject) {
  const auto* forward = oracle::find(subject.mechanism);
  if (!forward)
    return testing::AssertionFailure()
           << "no oracle; tests/attention/" << subject.mechanism
           << "_test.cpp registers it with oracle::add(\"" << subject.mechanism << "\", …)";
  const at::NoGradGuard no_grad;
  Findings findings;
  const auto compare = [&](const Built& built, const Tensor& x, const Mask& mask,
                           const Tensor& memory, const std::string& what) {
    const Context context = {.mask = mask, .memory = memory};
    findings.near(text_of(mask) + what, built(x, mask, memory),
                  (*forward)(*built.mixer, subject.options, built.site, x, context),
                  tolerance(at::kDouble));
  };
  for (const auto& mode : modes(subject.promises))
    for (const int64_t n : {1, 10, 63, 101}) {
      const auto built = build(subject);
      const auto x = random_normal({2, n, 24}, 1);
      const auto size = ", " + std::to_string(n) + " tokens";
      compare(built, x, mode, {}, size);
      if (subject.promises.padding != Padding::refused)
        compare(built, x, right_padded(mode, {n, (n + 2) / 3}, n), {}, size + ", padded");
      if (!subject.promises.cross) continue;
      const auto crossing = build(subject, {.cross = true});
      for (const int64_t m : {7, 33}) {
        const auto memory = random_normal({2, m, 20}, 2);
        const auto keys = size + ", " + std::to_string(m) + " keys";
        compare(crossing, x, mode, memory, keys);
        compare(crossing, x, right_padded(mode, {m, 3}, m), memory, keys + ", padded");
      }
    }
  return findings.verdict();
}

// Parameters and inputs are rounded to the type first, so that only the computation differs, and
// the discrete choices are those of float64, because of two keys that nearly tie each type may take
// another. The sequence is long enough that a sum kept in bfloat16 would stop growing.
testing::AssertionResult less_precision(const Subject& subject, at::Device device) {
  const at::NoGradGuard no_grad;
  Findings findings;
  for (const auto& mode : modes(subject.promises))
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      constexpr int64_t kTokens = 600;
      const auto built = build(subject, {.max_length = kTokens});
      for (const auto& leaves : {built.parameters(), built.buffers()})
        for (const auto& leaf : leaves) leaf.tensor.set_data(leaf.tensor.to(device));
      const auto x = (random_normal({1, kTokens, 24}, 3) + 0.5).to(device, type);
      Choices choices = {.mode = Choices::Mode::record};
      const auto run = [&](at::ScalarType computed) {
        cast(built, computed);
        Context context = {
            .mask = mode, .random = Random::from_seed(5, 0, device), .choices = &choices};
        return (*built.mixer)(x.to(computed), context);
      };
      cast(built, type);
      const auto want = run(at::kDouble);
      choices.mode = Choices::Mode::replay;
      const auto got = run(type);
      findings.that(got.scalar_type() == type, text_of(mode) + ": the output has another type");
      const double scale = want.abs().max().item<double>();
      findings.near(text_of(mode) + ", " + c10::toString(type), got.cpu(), want.cpu(),
                    {.absolute = tolerance(type).absolute * scale});
    }
  return findings.verdict();
}

testing::AssertionResult less_precision_is_nearby(const Subject& subject) {
  return less_precision(subject, at::kCPU);
}
testing::AssertionResult less_precision_is_nearby_on_the_gpu(const Subject& subject) {
  return less_precision(subject, at::kCUDA);
}

std::map<std::string, Tensor> saved(const Built& built) {
  std::map<std::string, Tensor> all;
  for (const auto& leaves : {built.parameters(), built.buffers()})
    for (const auto& leaf : leaves) all[leaf.name] = leaf.tensor.detach();
  return all;
}

void look_for_shared_storage(const Built& built, Findings& findings) {
  std::map<const void*, std::string> seen;
  for (const auto& [name, tensor] : saved(built)) {
    if (tensor.numel() == 0) continue;
    const auto [found, fresh] = seen.emplace(tensor.storage().data(), name);
    findings.that(fresh, name + " is also registered as " + found->second);
  }
}

testing::AssertionResult a_saved_module_is_the_same(const Subject& subject) {
  const at::NoGradGuard no_grad;
  Findings findings;
  const auto path =
      std::filesystem::path(testing::TempDir()) / ("law_" + subject.name + ".safetensors");
  const auto original = build(subject), copy = build(subject, {.seed = 77});
  look_for_shared_storage(original, findings);
  save_safetensors(path.string(), saved(original));
  const auto loaded = load_safetensors(path.string()).tensors;
  std::filesystem::remove(path);
  findings.that(loaded.size() == saved(original).size(),
                "the file holds another number of tensors");
  for (auto& [name, tensor] : saved(copy)) {
    findings.that(loaded.count(name) > 0, name + " was not saved");
    if (loaded.count(name)) Tensor(tensor).copy_(loaded.at(name));
  }
  for (const auto& mode : modes(subject.promises)) {
    const auto x = random_normal({2, 33, 24}, 4);
    findings.equal(text_of(mode) + ", loaded", copy(x, mode), original(x, mode));
  }
  return findings.verdict();
}

}  // namespace

const Law kEqualsItsOracle = {"equals its oracle", nobody, equals_its_oracle};
const Law kLessPrecisionIsNearby = {"less precision is nearby", nobody, less_precision_is_nearby};
const Law kLessPrecisionIsNearbyOnTheGpu = {"less precision is nearby on the GPU", nobody,
                                            less_precision_is_nearby_on_the_gpu};
const Law kASavedModuleIsTheSame = {"a saved module is the same", nobody,
                                    a_saved_module_is_the_same};

}  // namespace longbow
