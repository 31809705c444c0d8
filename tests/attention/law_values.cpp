// What is computed: the definition, and the same after saving and loading.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <utility>

#include "longbow/tensors/safetensors.h"
#include "tests/attention/laws.h"
#include "tests/support/oracle.h"

namespace longbow {
namespace {

std::string nobody(const Promises&) {
  return "";
}

// Longer than a window, a ring or a block of any row; where there are tiles, longer than those.
int64_t longest_oracle(const Promises& promises, const Mask& mode) {
  const bool tiles = mode.causal ? promises.causal_launches == Launches::growing
                                 : promises.launches == Launches::growing;
  return tiles ? 1101 : 301;
}

testing::AssertionResult equals_its_oracle(const Subject& subject, at::Device device) {
  const auto* forward = oracle::find(subject.mechanism);
  if (!forward)
    return testing::AssertionFailure()
           << "no oracle; tests/attention/" << subject.mechanism
           << "_test.cpp registers it with oracle::add(\"" << subject.mechanism << "\", …)";
  const at::NoGradGuard no_grad;
  Findings findings;
  // One module and, on the CPU, another whose parameters the oracle reads, for each kind of case: a
  // call of the one leaves nothing behind that the next would read.
  std::map<std::pair<bool, int64_t>, std::pair<Built, Built>> modules;
  const auto modules_for = [&](bool cross, int64_t longest) -> const auto& {
    const std::pair key = {cross, longest};
    if (!modules.contains(key))
      modules.emplace(
          key, std::pair{build(subject, {.cross = cross, .max_length = longest, .device = device}),
                         build(subject, {.cross = cross, .max_length = longest})});
    return modules.at(key);
  };
  const auto compare = [&](bool cross, const Tensor& x, const Mask& mask, const Tensor& memory,
                           const std::string& what) {
    const auto& [built, defined] = modules_for(cross, std::max<int64_t>(128, x.size(1)));
    const Context context = {.mask = mask, .memory = memory};
    const auto read = memory.defined() ? memory.to(device) : memory;
    findings.near(text_of(mask) + what, built(x.to(device), mask, read),
                  (*forward)(*defined.mixer, subject.options, defined.site, x, context),
                  tolerance(at::kDouble));
  };
  for (const auto& mode : modes(subject.promises)) {
    const int64_t n = longest_oracle(subject.promises, mode);
    compare(false, random_normal({1, n, 24}, 1),
            subject.promises.padding == Padding::refused ? mode : right_padded(mode, {n - 7}, n),
            {}, ", " + std::to_string(n) + " tokens");
  }
  for (const auto& mode : modes(subject.promises))
    for (const int64_t n : {1, 10, 63, 101}) {
      const auto x = random_normal({2, n, 24}, 1);
      const auto size = ", " + std::to_string(n) + " tokens";
      compare(false, x, mode, {}, size);
      if (subject.promises.padding != Padding::refused)
        compare(false, x, right_padded(mode, {n, (n + 2) / 3}, n), {}, size + ", padded");
      if (!subject.promises.cross) continue;
      for (const int64_t m : {7, 33}) {
        const auto memory = random_normal({2, m, 20}, 2);
        const auto keys = size + ", " + std::to_string(m) + " keys";
        compare(true, x, mode, memory, keys);
        compare(true, x, right_padded(mode, {m, 3}, m), memory, keys + ", padded");
      }
    }
  return findings.verdict();
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

testing::AssertionResult a_saved_module_is_the_same(const Subject& subject, at::Device device) {
  const at::NoGradGuard no_grad;
  Findings findings;
  const auto path =
      std::filesystem::path(testing::TempDir()) / ("law_" + subject.name + ".safetensors");
  const auto original = build(subject, {.device = device}),
             copy = build(subject, {.seed = 77, .device = device});
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
    const auto x = original.random({2, 33, 24}, 4);
    findings.equal(text_of(mode) + ", loaded", copy(x, mode), original(x, mode));
  }
  return findings.verdict();
}

}  // namespace

const Law kEqualsItsOracle = {"equals its oracle", nobody, equals_its_oracle};
const Law kASavedModuleIsTheSame = {"a saved module is the same", nobody,
                                    a_saved_module_is_the_same};

}  // namespace longbow
