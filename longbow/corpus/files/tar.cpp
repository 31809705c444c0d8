#include "longbow/corpus/files/tar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "longbow/core/error.h"

namespace longbow::corpus {
namespace {

constexpr size_t kBlock = 512;
using Header = std::array<char, kBlock>;

// A field of the header: where it begins, and its bytes.
struct Field {
  size_t at, size;
};
constexpr Field kName = {0, 100}, kSize = {124, 12}, kSum = {148, 8}, kPrefix = {345, 155};
constexpr size_t kType = 156;

std::string text_of(const Header& header, Field field) {
  const std::string_view whole(header.data() + field.at, field.size);
  return std::string(whole.substr(0, whole.find('\0')));
}

// Octal digits, blanks around them.
std::optional<size_t> number_of(const Header& header, Field field) {
  auto text = text_of(header, field);
  std::erase(text, ' ');
  if (text.empty()) return {};
  size_t value = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '7') return {};
    value = value * 8 + static_cast<size_t>(digit - '0');
  }
  return value;
}

// The sum of all bytes, where those of the sum itself count as blanks.
size_t sum_of(const Header& header) {
  size_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i)
    sum += i >= kSum.at && i < kSum.at + kSum.size ? ' ' : static_cast<unsigned char>(header[i]);
  return sum;
}

class TarReader {
 public:
  TarReader(ByteSource& source, const std::string& name, size_t most)
      : source_(source), name_(name), most_(most) {}

  void read(const TakeFile& take) {
    Header header;
    std::string bytes;
    // Two blocks of zeros end an archive: without the first of them, members may be missing.
    for (;;) {
      fill(header.data(), kBlock);
      if (std::ranges::all_of(header, [](char byte) { return byte == 0; })) return;
      if (number_of(header, kSum) != sum_of(header))
        fail("is not a tar archive, or is corrupt", "copy or download the file again");
      const auto prefix = text_of(header, kPrefix), own = text_of(header, kName);
      const auto path = prefix.empty() ? own : prefix + "/" + own;
      const auto size = number_of(header, kSize).value_or(most_ + 1);
      if (size > most_)
        fail(fmt::format("holds {}, a file of more than {} bytes", quote(path), most_), "");
      bytes.resize((size + kBlock - 1) / kBlock * kBlock);
      fill(bytes.data(), bytes.size());
      const bool is_file = header[kType] == '0' || header[kType] == '\0';
      if (is_file) take(path, std::string_view(bytes).substr(0, size));
    }
  }

 private:
  void fill(char* to, size_t size) {
    for (size_t filled = 0; filled < size;) {
      const size_t count = source_.read(to + filled, size - filled);
      if (count == 0) fail("the tar archive is cut off", "copy or download the file again");
      filled += count;
    }
  }
  [[noreturn]] void fail(const std::string& what, const std::string& hint) const {
    throw UserError({name_, 0}, what, hint);
  }
  ByteSource& source_;
  const std::string& name_;
  size_t most_;
};

}  // namespace

void read_tar(ByteSource& source, const std::string& name, size_t most, const TakeFile& take) {
  TarReader(source, name, most).read(take);
}

}  // namespace longbow::corpus
