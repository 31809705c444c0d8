#include "longbow/corpus/files/text_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

#include "longbow/core/error.h"
#include "longbow/corpus/files/utf8_scan.h"

namespace longbow::corpus {
namespace {

constexpr size_t kBlock = size_t{1} << 18;
constexpr std::string_view kReplacement = "\xef\xbf\xbd", kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

TextFile::TextFile(const TextOptions& options, const std::string& name)
    : options_(options),
      name_(std::make_shared<const std::string>(name)),
      checksum_(options.checksum ? std::make_unique<Sha256>() : nullptr) {}

TextFile::TextFile(const std::string& path, const TextOptions& options) : TextFile(options, path) {
  source_ = open_file(path, checksum_.get());
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
                      "is this a text file? max_line sets the limit");
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
  if (start_ == checked_) fill();
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
  std::memmove(buffer_.data(), buffer_.data() + start_, filled_ - start_);
  checked_ -= start_;
  filled_ -= start_;
  start_ = 0;
  const size_t unread = checked_;
  while (!ended_) {
    read_more();
    if (!begun_) begin();
    check();
    if (checked_ - start_ > unread) return true;
  }
  return false;
}

void TextFile::read_more() {
  if (buffer_.size() - filled_ < kBlock)
    buffer_.resize(std::max(2 * buffer_.size(), filled_ + kBlock));
  for (const size_t enough = filled_ + kBlock; filled_ < enough && !ended_;) {
    const size_t count = source_->read(buffer_.data() + filled_, buffer_.size() - filled_);
    filled_ += count;
    ended_ = count == 0;
  }
}

// Looks at the first bytes.
void TextFile::begin() {
  begun_ = true;
  const auto text = std::string_view(buffer_).substr(0, filled_);
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    throw UserError({*name_, 0}, "is UTF-16",
                    "convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW");
  if (text.starts_with(kByteOrderMark)) start_ = checked_ = kByteOrderMark.size();
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
                  "convert the file with iconv, or set malformed: replace");
}

}  // namespace longbow::corpus
