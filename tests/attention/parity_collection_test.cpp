// Every case in the collection (its README says how each output is formed) is reproduced by the
// reader of its row, or set aside with the reason why not. A case that is neither fails.
#include "tests/attention/parity.h"
#include "tests/support/parity.h"

namespace longbow::parity {
namespace {

const SetAside kMissing[] = {
    {"canine", "a model: tests/models reads it"},
    {"perceiver", "a model: tests/models reads it"},
    {"reformer-axial", "positions: tests/models reads it"},
};

TEST(ParityCollection, EveryCaseIsReproducedOrSetAsideWithAReason) {
  const auto folder = parity_collection();
  if (!std::filesystem::is_directory(folder))
    GTEST_SKIP() << folder << " is not there; name it in LONGBOW_PARITY";
  int checked = 0, set_aside = 0;
  for (const auto& name : check_folder(folder))
    ++(find_entry(name)->reason.empty() ? checked : set_aside);
  std::printf("parity: %d cases reproduced, %d set aside\n", checked, set_aside);
  EXPECT_GT(checked, 0);
}

}  // namespace
}  // namespace longbow::parity
