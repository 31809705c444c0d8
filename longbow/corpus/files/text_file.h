#pragma once
// A text file read from the beginning to the end in blocks, so that it may be larger than memory:
// UTF-8, plain or packed (byte_source.h), line by line or as one stream of text.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "longbow/core/fields.h"
#include "longbow/core/sha256.h"
#include "longbow/corpus/files/byte_source.h"

namespace longbow::corpus {

enum class Malformed { error, replace };
constexpr std::array<std::string_view, 2> names_of(Malformed) {
  return {"error", "replace"};
}

struct TextOptions {
  Malformed malformed = Malformed::error;
  int64_t max_line = int64_t{64} << 20;
  // Set in code, not in a config.
  bool checksum = false;     // see TextFile::sha256
  bool is_in_config = true;  // whether hints may name the options above
};
template <class V>
void fields(V& v, TextOptions& o) {
  v("malformed", o.malformed,
    "bytes that are not UTF-8: an error, or replaced by U+FFFD, the replacement character");
  v("max_line", o.max_line, "longest line in bytes; also the longest row of a table",
    range(1, 1e12));
}

// A name that every record of a file shares.
using FileName = std::shared_ptr<const std::string>;

class TextFile {
 public:
  // UserError for what cannot be opened; a later call throws for what cannot be read, is cut off,
  // corrupt, UTF-16, not UTF-8 or has NUL bytes.
  explicit TextFile(const std::string& path, const TextOptions& options = {});
  // Of a file that is open, such as stdin or a pipe, and stays open.
  static TextFile of_descriptor(int descriptor, const std::string& name,
                                const TextOptions& options = {});
  // The bytes of a file that is in memory; they must outlive this object.
  static TextFile in_memory(std::string_view bytes, const std::string& name,
                            const TextOptions& options = {});

  // The next line without its end (LF or CRLF), as soon as it has been written; false after the
  // last one. A byte order mark is dropped. The view holds until the next call.
  bool line(std::string_view& line);
  bool line(std::string& line);
  // How the last line ended: "\n", "\r\n", or "" at the end of the file.
  std::string_view line_end() const { return line_end_; }

  // Text that comes next and stays unread: at the start 256 KiB, or all of a shorter file; later
  // perhaps less, but empty only at the end.
  std::string_view peek();
  // The same, as read: all text by calls until it is empty, cut between characters.
  std::string_view block();
  // The rest of the text. UserError when it is longer than `most` bytes.
  std::string read_all(int64_t most = int64_t{1} << 32);

  const std::string& name() const { return *name_; }
  const FileName& shared_name() const { return name_; }
  int64_t line_number() const { return lines_; }  // of the last line read, from 1
  Place place() const { return place_at(lines_); }
  Place place_at(int64_t line) const;
  const TextOptions& options() const { return options_; }
  int64_t stored() const { return source_->stored(); }  // bytes on disk that have been taken so far

  // Of the bytes on disk, to the end of the file, which this reads; needs options.checksum.
  std::string sha256();

 private:
  TextFile(const TextOptions& options, const std::string& name);
  bool fill();
  void read_more();
  bool begin();
  void check();
  void replace_malformed();
  [[noreturn]] void fail_character() const;

  TextOptions options_;
  FileName name_;
  std::unique_ptr<Sha256> checksum_;
  std::unique_ptr<ByteSource> source_;
  // buffer_[start_, checked_) is unread text; up to filled_ follows the beginning of a character.
  std::string buffer_;
  size_t start_ = 0, checked_ = 0, filled_ = 0;
  bool begun_ = false, ended_ = false;
  int64_t lines_ = 0;
  size_t column_ = 0;  // characters of the current line before start_
  std::string_view line_end_;
};

}  // namespace longbow::corpus
