#pragma once
// What stores on disk have in common: a file of theirs that is gone, or is not as it was written,
// is a UserError that says what to do.
#include <string>

#include "longbow/core/fields.h"
#include "longbow/core/file.h"
#include "longbow/core/mapped_file.h"

namespace longbow {

[[noreturn]] void fail_stored(const std::string& path, const std::string& what);

// The path, of a file that is there.
std::string stored_path(const std::string& path);
std::string checksum_of(const MappedFile& file);

// What a JSON file of the store says.
template <Described Card>
Card read_card(const std::string& path) {
  const auto text = read_file(stored_path(path));
  try {
    return read<Card>(parse_json(text, path));
  } catch (const UserError&) {
    fail_stored(path, "not what was written");
  }
}

}  // namespace longbow
