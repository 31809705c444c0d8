#include "longbow/corpus/files/png.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>
#include <span>
#include <stdexcept>

#include "longbow/core/error.h"

namespace longbow::corpus {
namespace {

constexpr std::string_view kSignature("\x89PNG\r\n\x1a\n", 8);
constexpr const char* kAgain = "copy or download the file again";
constexpr int64_t kMostSide = 1 << 14;
constexpr int64_t kMostDeflated = 1032;  // bytes that one packed byte can stand for

uint32_t number_at(std::string_view bytes) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<uint8_t>(bytes[i]);
  return number;
}

void append_number(std::string& bytes, uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes.push_back(static_cast<char>(number >> shift & 0xff));
}

uint32_t checksum(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

class PngReader {
 public:
  PngReader(std::string_view bytes, const std::string& name) : left_(bytes), name_(name) {}

  GreyImage image() {
    if (!left_.starts_with(kSignature)) fail("is not a PNG file", "");
    left_.remove_prefix(kSignature.size());
    const auto header = chunk();
    if (header.type != "IHDR" || header.data.size() != 13) fail("its header is broken", kAgain);
    read_header(header.data);
    read_chunks();
    if (colours_ == 3 && palette_.empty()) fail("has no palette", kAgain);
    const auto rows = unpacked();
    GreyImage image = {.height = height_, .width = width_, .pixels = {}};
    image.pixels.reserve(static_cast<size_t>(height_ * width_));
    for (int64_t y = 0; y < height_; ++y) append_row(image, rows, y);
    return image;
  }

 private:
  struct Chunk {
    std::string_view type, data;
  };

  [[noreturn]] void fail(const std::string& what, const std::string& hint) const {
    throw UserError(Place{name_, 0}, what, hint);
  }

  // Takes the next one off.
  Chunk chunk() {
    constexpr size_t kAround = 12;  // length, type, checksum
    if (left_.size() < kAround) fail("the PNG data is cut off", kAgain);
    const size_t length = number_at(left_);
    if (length > left_.size() - kAround) fail("the PNG data is cut off", kAgain);
    const Chunk chunk = {.type = left_.substr(4, 4), .data = left_.substr(8, length)};
    if (checksum(left_.substr(4, 4 + length)) != number_at(left_.substr(8 + length)))
      fail(fmt::format("the checksum of its part {} is wrong", quote(std::string(chunk.type))),
           kAgain);
    left_.remove_prefix(kAround + length);
    return chunk;
  }

  void read_header(std::string_view data) {
    width_ = number_at(data);
    height_ = number_at(data.substr(4));
    const int depth = data[8], packing = data[10], filters = data[11], interlaced = data[12];
    colours_ = data[9];
    if (width_ < 1 || height_ < 1 || width_ > kMostSide || height_ > kMostSide)
      fail(fmt::format("is {} x {} pixels", height_, width_),
           fmt::format("a side may have 1..{}", kMostSide));
    if (depth != 8) fail(fmt::format("has {} bits a sample", depth), "8 bits are read");
    switch (colours_) {
      case 0:
      case 3:
        samples_ = 1;
        break;
      case 2:
        samples_ = 3;
        break;
      case 4:
        samples_ = 2;
        break;
      case 6:
        samples_ = 4;
        break;
      default:
        fail(fmt::format("has colours of type {}", colours_), kAgain);
    }
    if (packing != 0 || filters != 0) fail("is packed in an unknown way", kAgain);
    if (interlaced != 0) fail("is interlaced", "save it without interlacing");
  }

  void read_chunks() {
    bool ended = false, in_data = false;
    while (!ended) {
      const auto [type, data] = chunk();
      if (type == "IDAT") {
        if (!packed_.empty() && !in_data) fail("its pixels are not in one place", kAgain);
        packed_ += data;
      } else if (type == "PLTE") {
        if (data.empty() || data.size() > 3 * 256 || data.size() % 3 != 0)
          fail("its palette is broken", kAgain);
        palette_ = data;
      } else if (type == "IEND") {
        ended = true;
      } else if ((type[0] & 0x20) == 0) {  // needed for the picture
        fail(fmt::format("has an unknown part {}", quote(std::string(type))), "");
      }
      in_data = type == "IDAT";
    }
    if (!left_.empty()) fail("other bytes follow the PNG data", kAgain);
  }

  // One byte for the filter before each row. Memory is taken only where the packed bytes can fill
  // it.
  std::vector<uint8_t> unpacked() {
    const int64_t size = height_ * (1 + width_ * samples_);
    if (size / kMostDeflated > std::ssize(packed_)) fail("the PNG data is cut off", kAgain);
    std::vector<uint8_t> rows(static_cast<size_t>(size));
    z_stream stream = {};
    if (inflateInit(&stream) != Z_OK) throw std::bad_alloc();
    stream.next_in = reinterpret_cast<Bytef*>(packed_.data());
    stream.avail_in = static_cast<uInt>(packed_.size());
    stream.next_out = rows.data();
    stream.avail_out = static_cast<uInt>(rows.size());
    const int status = inflate(&stream, Z_FINISH);
    const bool whole = status == Z_STREAM_END && stream.avail_out == 0 && stream.avail_in == 0;
    inflateEnd(&stream);
    if (!whole) fail("its pixels are cut off or corrupt", kAgain);
    undo_filters(rows);
    return rows;
  }

  void undo_filters(std::vector<uint8_t>& rows) const {
    const auto width = static_cast<size_t>(width_ * samples_), back = static_cast<size_t>(samples_);
    const std::vector<uint8_t> nothing(width);
    const uint8_t* above = nothing.data();
    for (int64_t y = 0; y < height_; ++y) {
      auto* row = &rows[static_cast<size_t>(y) * (width + 1)];
      const int filter = *row++;
      if (filter > 4) fail(fmt::format("has rows of the unknown filter {}", filter), kAgain);
      for (size_t x = 0; x < width; ++x) {
        const int left = x < back ? 0 : row[x - back], corner = x < back ? 0 : above[x - back];
        row[x] = static_cast<uint8_t>(row[x] + predicted(filter, left, above[x], corner));
      }
      above = row;
    }
  }

  static int predicted(int filter, int left, int above, int corner) {
    switch (filter) {
      case 1:
        return left;
      case 2:
        return above;
      case 3:
        return (left + above) / 2;
      case 4: {  // Paeth: the neighbour nearest to left + above - corner
        const int to_left = std::abs(above - corner), to_above = std::abs(left - corner),
                  to_corner = std::abs(left + above - 2 * corner);
        if (to_left <= to_above && to_left <= to_corner) return left;
        return to_above <= to_corner ? above : corner;
      }
      default:
        return 0;
    }
  }

  void append_row(GreyImage& image, const std::vector<uint8_t>& rows, int64_t y) const {
    const auto* sample = &rows[static_cast<size_t>(y * (1 + width_ * samples_) + 1)];
    for (int64_t x = 0; x < width_; ++x, sample += samples_) {
      if (samples_ >= 3) {
        image.pixels.push_back(grey(sample));
      } else if (colours_ == 3) {
        const auto entry = 3 * size_t{*sample};
        if (entry >= palette_.size()) fail("has a colour outside its palette", kAgain);
        image.pixels.push_back(grey(reinterpret_cast<const uint8_t*>(&palette_[entry])));
      } else {
        image.pixels.push_back(*sample);
      }
    }
  }

  static uint8_t grey(const uint8_t* colour) {
    return static_cast<uint8_t>(
        (19595 * colour[0] + 38470 * colour[1] + 7471 * colour[2] + 32768) >> 16);
  }

  std::string_view left_;
  const std::string& name_;
  int64_t width_ = 0, height_ = 0, samples_ = 0;
  int colours_ = 0;
  std::string_view palette_;
  std::string packed_;
};

void append_chunk(std::string& bytes, const std::string& type, const std::string& data) {
  append_number(bytes, static_cast<uint32_t>(data.size()));
  bytes += type + data;
  append_number(bytes, checksum(type + data));
}

}  // namespace

GreyImage parse_png(std::string_view bytes, const std::string& name) {
  if (bytes.size() > std::numeric_limits<uInt>::max())
    throw UserError(Place{name, 0}, "is larger than 4 GiB");
  return PngReader(bytes, name).image();
}

std::string to_png(const GreyImage& image) {
  if (image.height < 1 || image.width < 1 || image.height > kMostSide || image.width > kMostSide ||
      std::ssize(image.pixels) != image.height * image.width)
    throw std::invalid_argument("to_png: not an image");
  std::string header, rows;
  append_number(header, static_cast<uint32_t>(image.width));
  append_number(header, static_cast<uint32_t>(image.height));
  header += std::string("\x08\0\0\0\0", 5);  // 8 bits, grey
  for (int64_t y = 0; y < image.height; ++y) {
    rows.push_back('\0');  // no filter
    rows.append(reinterpret_cast<const char*>(&image.pixels[static_cast<size_t>(y * image.width)]),
                static_cast<size_t>(image.width));
  }
  std::string packed(compressBound(rows.size()), '\0');
  auto size = static_cast<uLongf>(packed.size());
  if (compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                reinterpret_cast<const Bytef*>(rows.data()), rows.size(),
                Z_BEST_COMPRESSION) != Z_OK)
    throw std::bad_alloc();
  packed.resize(size);
  std::string bytes(kSignature);
  append_chunk(bytes, "IHDR", header);
  append_chunk(bytes, "IDAT", packed);
  append_chunk(bytes, "IEND", "");
  return bytes;
}

}  // namespace longbow::corpus
