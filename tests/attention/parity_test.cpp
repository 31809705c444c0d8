// Every case in the folder that LONGBOW_PARITY names (its README says how each output is formed) is
// reproduced by the reader of its row, or set aside with the reason why not. A case that is neither
// fails.
#include <cstdlib>
#include <filesystem>

#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

namespace fs = std::filesystem;

const char* const kNoRow = "its mechanism or model is not in the table yet";
const SetAside kMissing[] = {
    {"axial", kNoRow},
    {"bigbird", kNoRow},
    {"canine", "a model: tests/models reads it"},
    {"compressive", kNoRow},
    {"delta", kNoRow},
    {"gated-delta", kNoRow},
    {"gla", kNoRow},
    {"hyena", kNoRow},
    {"isab", kNoRow},
    {"longformer", kNoRow},
    {"longshort", kNoRow},
    {"mamba2", kNoRow},
    {"mega", kNoRow},
    {"perceiver", kNoRow},
    {"reformer", kNoRow},
    {"retention", kNoRow},
    {"routing", kNoRow},
    {"s4d", kNoRow},
    {"s5", kNoRow},
    {"settransformer", kNoRow},
    {"simple-gla", kNoRow},
    {"sinkhorn", kNoRow},
    {"sparse", kNoRow},
    {"transformer-ls", kNoRow},
    {"transformer_ls", kNoRow},
    {"transformer_xl", kNoRow},
};

// A case may be two files, <case>.io and <case>.model: the second holds the weights of the first.
fs::path other_half(const fs::path& file, const std::string& own, const std::string& other) {
  const auto name = file.stem();
  if (name.extension() != own) return {};
  return file.parent_path() / (name.stem().string() + other + ".safetensors");
}
bool is_second_half(const fs::path& file) {
  return fs::exists(other_half(file, ".model", ".io"));
}

Case load_case(const fs::path& file) {
  auto loaded = load_safetensors(file.string());
  if (const auto weights = other_half(file, ".io", ".model"); fs::exists(weights))
    loaded.tensors.merge(load_safetensors(weights.string()).tensors);
  return {file.stem().string(), parse_json(loaded.metadata.at("config"), file.string()),
          std::move(loaded.tensors)};
}

fs::path parity_folder() {
  const char* named = std::getenv("LONGBOW_PARITY");
  return named ? fs::path(named) : fs::path(LONGBOW_SOURCE_DIR) / "../shared/data/parity";
}

// Not cases of an attention: other layers' tests read them.
bool elsewhere(const fs::path& folder) {
  const auto name = folder.filename();
  return name == "formats" || name == "metrics" || name == "tokenizers" ||
         fs::exists(folder / "config.json");
}

TEST(Parity, EveryRecordedCaseIsReproducedOrSetAsideWithAReason) {
  const auto folder = parity_folder();
  if (!fs::is_directory(folder))
    GTEST_SKIP() << folder << " is not there; name it in LONGBOW_PARITY";
  int checked = 0, set_aside = 0;
  for (auto it = fs::recursive_directory_iterator(folder); it != fs::recursive_directory_iterator();
       ++it) {
    if (it->is_directory() && elsewhere(it->path())) it.disable_recursion_pending();
    if (it->path().extension() != ".safetensors" || is_second_half(it->path())) continue;
    const auto name = it->path().stem().string();
    const auto* entry = find_entry(name);
    if (!entry) {
      ADD_FAILURE() << it->path() << " has no reader";
      continue;
    }
    for (const auto& check : entry->checks) {
      const auto failure = error_of([&] { check(load_case(it->path())); });
      EXPECT_EQ(failure, "") << name;
    }
    ++(entry->reason.empty() ? checked : set_aside);
  }
  std::printf("parity: %d cases reproduced, %d set aside\n", checked, set_aside);
  EXPECT_GT(checked, 0);
}

}  // namespace
}  // namespace longbow::parity
