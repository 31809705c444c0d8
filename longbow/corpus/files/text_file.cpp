#include "longbow/corpus/files/text_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

#include "longbow/core/error.h"
#include "longbow/core/utf8.h"
#include "longbow/corpus/files/utf8_scan.h"

namespace longbow::corpus {
namespace {

constexpr size_t kBlock = size_t{1} << 18;
constexpr std::string_view kReplacement = "\xef\xbf\xbd";
// Byte order marks of UTF-8 and UTF-16.
constexpr std::array<std::string_view, 3> kMarks = {"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"};

// Whether these first bytes may become one with those that follow.
bool may_become_mark(std::string_view first) {
  return std::any_of(kMarks.begin(), kMarks.end(), [&](std::string_view mark) {
    return mark.size() > first.size() && mark.starts_with(first);
  });
}

}  // namespace

TextFile::TextFile(const TextOptions& options, const std::string& name)
    : options_(options),
      name_(std::make_shared<const std::string>(name)),
      checksum_(options.checksum ? std::make_unique<Sha256>() : nullptr) {}

TextFile::TextFile(const std::string& path, const TextOptions& options) : TextFile(options, path) {
  source_ = open_file(path, checksum_.get());
}

TextFile TextFile::of_descriptor(int descriptor, const std::string& name,
                                 const TextOptions& options) {
  TextFile file(options, name);
  file.source_ = open_descriptor(descriptor, name, file.checksum_.get());
  return file;
}

TextFile TextFile::in_memory(std::string_view bytes, const std::string& name,
                             const TextOptions& options) {
  TextFile file(options, name);
  file.source_ = open_bytes(bytes, name, file.checksum_.get());
  return file;
}

Place TextFile::place_at(int64_t line) const {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  return {*name_, static_cast<int>(std::min(line, kMost))};
}

bool TextFile::line(std::string_view& line) {
  size_t searched = 0;  // bytes of this line without an end
  const char* found = nullptr;
  do {
    const auto* from = buffer_.data() + start_ + searched;
    found = static_cast<const char*>(std::memchr(from, '\n', checked_ - start_ - searched));
    searched = found ? static_cast<size_t>(found - buffer_.data()) - start_ : checked_ - start_;
    if (std::cmp_greater(searched, options_.max_line))
      throw UserError(place_at(lines_ + 1),
                      fmt::format("the line is longer than {} bytes", options_.max_line),
                      options_.is_in_config ? "is this a text file? max_line sets the limit"
                                            : "is this a text file?");
  } while (!found && fill());
  if (!found && searched == 0) return false;
  const bool returned = found && searched > 0 && found[-1] == '\r';
  line_end_ = !found ? "" : returned ? "\r\n" : "\n";
  line = std::string_view(buffer_).substr(start_, searched - (returned ? 1 : 0));
  start_ += searched + (found ? 1 : 0);
  ++lines_;
  return true;
}

bool TextFile::line(std::string& line) {
  std::string_view view;
  if (!this->line(view)) return false;
  line = view;
  return true;
}

std::string_view TextFile::peek() {
  for (const size_t wanted = begun_ ? 1 : kBlock; checked_ - start_ < wanted;)
    if (!fill()) break;
  return std::string_view(buffer_).substr(start_, checked_ - start_);
}

std::string_view TextFile::block() {
  const auto text = peek();
  lines_ += std::count(text.begin(), text.end(), '\n');
  const auto last = text.rfind('\n');
  if (last != std::string_view::npos) column_ = 0;
  column_ += count_characters(text.substr(last + 1));
  start_ = checked_;
  return text;
}

std::string TextFile::read_all(int64_t most) {
  std::string text;
  for (auto part = block(); !part.empty(); part = block()) {
    text += part;
    if (std::cmp_greater(text.size(), most))
      throw UserError(Place{*name_, 0}, fmt::format("holds more than {} bytes of text", most));
  }
  return text;
}

std::string TextFile::sha256() {
  if (!checksum_) throw std::logic_error("TextFile::sha256: options.checksum is not set");
  start_ = checked_ = filled_ = 0;
  buffer_.resize(std::max(buffer_.size(), kBlock));
  while (source_->read(buffer_.data(), buffer_.size()) > 0) {
  }
  return checksum_->hex();
}

// More text after what is unread, which moves to the front; false at the end of the file.
bool TextFile::fill() {
  if (start_ > 0) std::memmove(buffer_.data(), buffer_.data() + start_, filled_ - start_);
  checked_ -= start_;
  filled_ -= start_;
  start_ = 0;
  const size_t unread = checked_;
  while (!ended_) {
    read_more();
    if (!begun_ && !begin()) continue;
    check();
    if (checked_ - start_ > unread) return true;
  }
  return false;
}

// What is there already, up to a block: the room that is left may be longer, since replaced bytes
// are longer than what they stand for, and must not become the size of a read.
void TextFile::read_more() {
  if (buffer_.size() - filled_ < kBlock)
    buffer_.resize(std::max(2 * buffer_.size(), filled_ + kBlock));
  const size_t count = source_->read(buffer_.data() + filled_, kBlock);
  filled_ += count;
  ended_ = count == 0;
}

// Looks at the first bytes; false when there are too few.
bool TextFile::begin() {
  const auto text = std::string_view(buffer_).substr(0, filled_);
  begun_ = ended_ || !may_become_mark(text);
  if (text.starts_with(kMarks[1]) || text.starts_with(kMarks[2]))
    throw UserError({*name_, 0}, "is UTF-16",
                    "convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW");
  start_ = checked_ = text.size() - without_byte_order_mark(text).size();
  return begun_;
}

// Moves checked_ to the end, or before a character that the next block completes.
void TextFile::check() {
  const auto text = std::string_view(buffer_).substr(0, filled_);
  checked_ += plain_utf8_prefix(text.substr(checked_));
  if (checked_ == filled_) return;
  const bool is_cut = utf8_piece(text, checked_).state == Utf8State::cut && !ended_;
  if (is_cut) return;
  if (options_.malformed == Malformed::error) fail_character();
  replace_malformed();
}

void TextFile::replace_malformed() {
  const std::string rest(buffer_, checked_, filled_ - checked_);
  const std::string_view text(rest);
  buffer_.resize(checked_);
  for (size_t at = 0; at < rest.size();) {
    const size_t plain = plain_utf8_prefix(text.substr(at));
    buffer_.append(rest, at, plain);
    checked_ = filled_ = buffer_.size();
    at += plain;
    if (at == rest.size()) return;
    const auto piece = utf8_piece(text, at);
    if (piece.state != Utf8State::malformed && !(piece.state == Utf8State::cut && ended_)) {
      buffer_.append(rest, at);
      filled_ = buffer_.size();
      if (piece.state == Utf8State::valid) fail_character();  // a NUL
      return;
    }
    buffer_ += kReplacement;
    at += piece.bytes;
    checked_ = filled_ = buffer_.size();
  }
}

// The byte at checked_ is not text.
void TextFile::fail_character() const {
  const auto before = std::string_view(buffer_).substr(start_, checked_ - start_);
  const auto place = place_at(lines_ + 1 + std::count(before.begin(), before.end(), '\n'));
  const auto last = before.rfind('\n');
  const size_t column = (last == std::string_view::npos ? column_ : 0) +
                        count_characters(before.substr(last + 1)) + 1;
  const auto byte = static_cast<unsigned char>(buffer_[checked_]);
  if (byte == 0)
    throw UserError(place, fmt::format("column {} is a NUL byte", column),
                    "a text file has none; is this a binary file, or UTF-16?");
  throw UserError(place, fmt::format("column {}: byte 0x{:02x} is not UTF-8", column, byte),
                  options_.is_in_config ? "convert the file with iconv, or set malformed: replace"
                                        : "convert the file with iconv");
}

}  // namespace longbow::corpus
