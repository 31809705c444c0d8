#include "longbow/corpus/files/byte_source.h"

#include <fcntl.h>
#include <lzma.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "longbow/core/error.h"
#include "longbow/core/file_error.h"
#include "longbow/core/sha256.h"

namespace longbow::corpus {
namespace {

constexpr size_t kBlock = size_t{1} << 18;
// What unpacking may take. `xz -9` asks for 65 MiB; a file can claim 4 GiB.
constexpr uint64_t kMostUnpackingBytes = uint64_t{256} << 20;

class DescriptorBytes : public ByteSource {
 public:
  DescriptorBytes(int descriptor, const std::string& name) : descriptor_(descriptor), name_(name) {}

  size_t read(char* to, size_t room) override {
    ssize_t count = -1;
    do count = ::read(descriptor_, to, room);
    while (count < 0 && errno == EINTR);
    if (count < 0) fail_at(name_, "cannot be read", errno);
    stored_ += count;
    return static_cast<size_t>(count);
  }
  int64_t stored() const override { return stored_; }

 protected:
  const int descriptor_;

 private:
  std::string name_;
  int64_t stored_ = 0;
};

class FileBytes : public DescriptorBytes {
 public:
  explicit FileBytes(const std::string& path) : DescriptorBytes(opened(path), path) {}
  ~FileBytes() override { ::close(descriptor_); }
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

 private:
  static int opened(const std::string& path) {
    int descriptor = -1;
    errno = EINVAL;  // what a NUL inside the path is
    if (path.find('\0') == std::string::npos)
      descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) fail_at(path, "cannot be read", errno);
    return descriptor;
  }
};

class MemoryBytes : public ByteSource {
 public:
  explicit MemoryBytes(std::string_view bytes) : left_(bytes), size_(bytes.size()) {}
  size_t read(char* to, size_t room) override {
    const size_t count = std::min(room, left_.size());
    if (count > 0) std::memcpy(to, left_.data(), count);
    left_.remove_prefix(count);
    return count;
  }
  int64_t stored() const override { return static_cast<int64_t>(size_ - left_.size()); }

 private:
  std::string_view left_;
  size_t size_;
};

// What packed files begin with.
constexpr std::string_view kGzip("\x1f\x8b", 2), kXz("\xfd\x37zXZ\0", 6);
struct Unsupported {
  std::string_view first;
  const char* kind;
};
constexpr Unsupported kUnsupported[] = {{{"\x28\xb5\x2f\xfd", 4}, "a zstd"},
                                        {{"BZh", 3}, "a bzip2"},
                                        {{"PK\x03\x04", 4}, "a zip"},
                                        {{"7z\xbc\xaf\x27\x1c", 6}, "a 7-Zip"}};

// Whether more bytes are needed to tell what a file is that begins with these.
bool is_undecided(std::string_view first) {
  const auto may_become = [&](std::string_view kind) {
    return kind.size() > first.size() && kind.starts_with(first);
  };
  return may_become(kGzip) || may_become(kXz) ||
         std::any_of(std::begin(kUnsupported), std::end(kUnsupported),
                     [&](const Unsupported& kind) { return may_become(kind.first); });
}

// What a file holds on disk, with its first bytes to look at. No more are waited for than tell what
// the file is: a person who types may not have written them yet.
class StoredBytes : public ByteSource {
 public:
  StoredBytes(std::unique_ptr<ByteSource> source, Sha256* checksum)
      : source_(std::move(source)), checksum_(checksum) {
    char bytes[kFirst];
    for (size_t count = 1; count > 0 && is_undecided(first_);) {
      count = source_->read(bytes, kFirst - first_.size());
      first_.append(bytes, count);
    }
    if (checksum_) checksum_->add(first_);
    unread_ = first_;
  }
  std::string_view first() const { return first_; }
  size_t read(char* to, size_t room) override {
    if (!unread_.empty()) {
      const size_t count = std::min(room, unread_.size());
      std::memcpy(to, unread_.data(), count);
      unread_.remove_prefix(count);
      return count;
    }
    const size_t count = source_->read(to, room);
    if (checksum_) checksum_->add({to, count});
    return count;
  }
  int64_t stored() const override { return source_->stored(); }

 private:
  static constexpr size_t kFirst = 6;
  std::unique_ptr<ByteSource> source_;
  Sha256* checksum_;
  std::string first_;
  std::string_view unread_;
};

// Both kinds of packed files: a block of packed bytes, and what is said of broken ones.
class PackedBytes : public ByteSource {
 public:
  PackedBytes(std::unique_ptr<ByteSource> stored, const std::string& name, const char* kind)
      : stored_(std::move(stored)), name_(name), kind_(kind), block_(kBlock) {}
  int64_t stored() const override { return stored_->stored(); }

 protected:
  // The next packed bytes, empty at the end of the file.
  std::string_view next_block() {
    return {block_.data(), stored_->read(block_.data(), block_.size())};
  }
  [[noreturn]] void fail(const std::string& what, const std::string& hint) const {
    throw UserError({name_, 0}, what, hint);
  }
  [[noreturn]] void fail_cut() const {
    fail(std::string("the ") + kind_ + " data is cut off", "copy or download the file again");
  }
  [[noreturn]] void fail_corrupt() const {
    fail(std::string("the ") + kind_ + " data is corrupt", "copy or download the file again");
  }

 private:
  std::unique_ptr<ByteSource> stored_;
  std::string name_;
  const char* kind_;
  std::vector<char> block_;
};

class GzipBytes : public PackedBytes {
 public:
  GzipBytes(std::unique_ptr<ByteSource> stored, const std::string& name)
      : PackedBytes(std::move(stored), name, "gzip") {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~GzipBytes() override { inflateEnd(&stream_); }
  GzipBytes(const GzipBytes&) = delete;
  GzipBytes& operator=(const GzipBytes&) = delete;

  size_t read(char* to, size_t room) override {
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(std::min<size_t>(room, UINT32_MAX));
    const auto asked = stream_.avail_out;
    while (stream_.avail_out == asked) {
      if (stream_.avail_in == 0) refill();
      if (between_members_ && !next_member()) break;
      if (stream_.avail_in == 0) fail_cut();
      const int status = inflate(&stream_, Z_NO_FLUSH);
      if (status == Z_MEM_ERROR) throw std::bad_alloc();
      if (status != Z_OK && status != Z_STREAM_END) fail_corrupt();
      between_members_ = status == Z_STREAM_END;
    }
    return asked - stream_.avail_out;
  }

 private:
  void refill() {
    const auto block = next_block();
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(block.data()));
    stream_.avail_in = static_cast<uInt>(block.size());
  }
  // After a member there is another one, nothing, or zeros up to the end of a tape's block.
  bool next_member() {
    while (true) {
      if (stream_.avail_in == 0) refill();
      if (stream_.avail_in == 0) return false;
      if (*stream_.next_in != 0) break;
      padded_ = true;
      ++stream_.next_in;
      --stream_.avail_in;
    }
    if (padded_ || *stream_.next_in != 0x1f)
      fail("other bytes follow the gzip data", "copy or download the file again");
    inflateReset(&stream_);
    between_members_ = false;
    return true;
  }
  z_stream stream_ = {};
  bool between_members_ = false, padded_ = false;
};

class XzBytes : public PackedBytes {
 public:
  XzBytes(std::unique_ptr<ByteSource> stored, const std::string& name)
      : PackedBytes(std::move(stored), name, "xz") {
    if (lzma_stream_decoder(&stream_, kMostUnpackingBytes, LZMA_CONCATENATED) != LZMA_OK)
      throw std::bad_alloc();
  }
  ~XzBytes() override { lzma_end(&stream_); }
  XzBytes(const XzBytes&) = delete;
  XzBytes& operator=(const XzBytes&) = delete;

  size_t read(char* to, size_t room) override {
    stream_.next_out = reinterpret_cast<uint8_t*>(to);
    stream_.avail_out = room;
    while (stream_.avail_out == room && !done_) {
      if (stream_.avail_in == 0) {
        const auto block = next_block();
        stream_.next_in = reinterpret_cast<const uint8_t*>(block.data());
        stream_.avail_in = block.size();
      }
      check(lzma_code(&stream_, stream_.avail_in == 0 ? LZMA_FINISH : LZMA_RUN));
    }
    return room - stream_.avail_out;
  }

 private:
  void check(lzma_ret status) {
    switch (status) {
      case LZMA_OK:
        return;
      case LZMA_STREAM_END:
        done_ = true;
        return;
      case LZMA_BUF_ERROR:
        fail_cut();
      case LZMA_MEM_ERROR:
        throw std::bad_alloc();
      case LZMA_MEMLIMIT_ERROR:
        fail("unpacking the xz data needs more than 256 MiB of memory",
             "pack the file again, for example with xz -9");
      default:
        fail_corrupt();
    }
  }
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool done_ = false;
};

std::unique_ptr<ByteSource> unpacked(std::unique_ptr<ByteSource> source, const std::string& name,
                                     Sha256* checksum) {
  auto stored = std::make_unique<StoredBytes>(std::move(source), checksum);
  const auto first = stored->first();
  if (first.starts_with(kGzip)) return std::make_unique<GzipBytes>(std::move(stored), name);
  if (first.starts_with(kXz)) return std::make_unique<XzBytes>(std::move(stored), name);
  for (const auto& kind : kUnsupported)
    if (first.starts_with(kind.first))
      throw UserError({name, 0}, std::string("is ") + kind.kind + " file",
                      "unpack it; plain, gzip and xz files are read");
  return stored;
}

}  // namespace

std::unique_ptr<ByteSource> open_file(const std::string& path, Sha256* checksum) {
  return unpacked(std::make_unique<FileBytes>(path), path, checksum);
}

std::unique_ptr<ByteSource> open_descriptor(int descriptor, const std::string& name,
                                            Sha256* checksum) {
  return unpacked(std::make_unique<DescriptorBytes>(descriptor, name), name, checksum);
}

std::unique_ptr<ByteSource> open_bytes(std::string_view bytes, const std::string& name,
                                       Sha256* checksum) {
  return unpacked(std::make_unique<MemoryBytes>(bytes), name, checksum);
}

}  // namespace longbow::corpus
