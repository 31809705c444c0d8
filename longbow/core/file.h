#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace longbow {

std::string read_file(const std::string& path);  // UserError "path: cannot be read; <reason>"
void read_in_parts(const std::string& path, const std::function<void(std::string_view)>& take);
// Writes beside the target, syncs, renames: a reader sees the old file or the new one, never half
// of one.
void write_file(const std::string& path, const std::string& contents);
// The UserError that write_file would throw because of the path: for work that takes long, to be
// told before it.
void require_writable(const std::string& path);
void append_bytes(const std::string& path, const std::string& bytes);
void append_line(const std::string& path, const std::string& line);
std::string sha256(const std::string& bytes);         // 64 hex digits
std::string sha256_of_file(const std::string& path);  // streamed
// Of the names and the contents of all files below it, in the order of their names.
std::string sha256_of_folder(const std::string& path);

}  // namespace longbow
