// The cases in tests/parity are reproduced by the readers of their rows. Every reader has one
// there, so that a clone without the collection still compares each of these rows with a public
// implementation.
#include "tests/attention/parity.h"
#include "tests/support/parity.h"

namespace longbow::parity {
namespace {

TEST(Parity, EveryReaderReproducesACaseInTheRepository) {
  auto unused = readers();
  for (const auto& name : check_folder(parity_file(""))) unused.erase(find_entry(name)->beginning);
  EXPECT_EQ(unused, std::set<std::string>()) << "no case in tests/parity begins with these";
}

}  // namespace
}  // namespace longbow::parity
