#include "longbow/core/file_error.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "longbow/core/error.h"

namespace longbow {
namespace {

constexpr std::array kMachine = {ENOSPC, EDQUOT, EFBIG, EIO, ENOMEM, EMFILE, ENFILE};

}  // namespace

void fail_at(const std::string& path, const std::string& what, int reason) {
  const UserError error({path, 0}, what, std::generic_category().message(reason));
  if (std::find(kMachine.begin(), kMachine.end(), reason) == kMachine.end()) throw error;
  throw std::runtime_error(error.what());
}

}  // namespace longbow
