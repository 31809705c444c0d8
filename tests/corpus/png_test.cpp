#include "longbow/corpus/files/png.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "tests/corpus/support.h"

namespace longbow::corpus {
namespace {

std::string number(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
  return bytes;
}

std::string chunk(const std::string& type, const std::string& data) {
  const auto checked = type + data;
  const auto sum =
      crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  return number(static_cast<uint32_t>(data.size())) + checked + number(static_cast<uint32_t>(sum));
}

std::string packed(const std::string& bytes) {
  std::string result(compressBound(bytes.size()), '\0');
  auto size = static_cast<uLongf>(result.size());
  compress(reinterpret_cast<Bytef*>(result.data()), &size,
           reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  return result.substr(0, size);
}

const std::string kSignature("\x89PNG\r\n\x1a\n", 8);

struct Header {
  uint32_t width = 3, height = 1;
  char depth = 8, colours = 0, packing = 0, filters = 0, interlaced = 0;
  std::string chunk_of() const {
    return chunk("IHDR", number(width) + number(height) +
                             std::string{depth, colours, packing, filters, interlaced});
  }
};

std::string png(const Header& header, const std::string& rows, const std::string& before = "") {
  return kSignature + header.chunk_of() + before + chunk("IDAT", packed(rows)) + chunk("IEND", "");
}

std::string bytes(std::initializer_list<int> values) {
  std::string text;
  for (const int value : values) text.push_back(static_cast<char>(value));
  return text;
}

std::vector<uint8_t> pixels(const std::string& file) {
  return parse_png(file, "a.png").pixels;
}

std::string message(const std::string& file) {
  try {
    parse_png(file, "a.png");
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

GreyImage picture(int64_t height, int64_t width) {
  GreyImage image = {.height = height, .width = width, .pixels = {}};
  for (int64_t i = 0; i < height * width; ++i)
    image.pixels.push_back(static_cast<uint8_t>(i * i * 37 + i));
  return image;
}

TEST(Png, ReadsWhatItWrote) {
  for (const auto& [height, width] : {std::pair(1, 1), {32, 32}, {3, 300}, {257, 2}}) {
    const auto image = picture(height, width);
    EXPECT_EQ(parse_png(to_png(image), "a.png"), image);
  }
  EXPECT_THROW(to_png({.height = 2, .width = 2, .pixels = {1, 2, 3}}), std::invalid_argument);
}

// Three rows of three pixels; the first byte of each is its filter.
TEST(Png, UndoesTheFiveFilters) {
  const Header header = {.width = 3, .height = 3};
  const auto rows = [&](int filter, std::initializer_list<int> last) {
    return pixels(png(
        header, bytes({0, 10, 20, 30}) + bytes({0, 200, 100, 50}) + bytes({filter}) + bytes(last)));
  };
  using Row = std::vector<uint8_t>;
  const auto last = [](const Row& all) { return Row(all.begin() + 6, all.end()); };
  EXPECT_EQ(last(rows(0, {1, 2, 3})), Row({1, 2, 3}));
  EXPECT_EQ(last(rows(1, {250, 2, 10})), Row({250, 252, 6}));  // + left
  EXPECT_EQ(last(rows(2, {100, 1, 1})), Row({44, 101, 51}));   // + above
  EXPECT_EQ(last(rows(3, {1, 1, 1})), Row({101, 101, 76}));    // + their mean
  // Above, left and the corner are candidates: 200; of 201, 100, 200 the nearest to 101 is 100; of
  // 101, 50, 100 the nearest to 51 is 50.
  EXPECT_EQ(last(rows(4, {1, 1, 1})), Row({201, 101, 51}));
  EXPECT_EQ(rows(4, {1, 1, 1})[0], 10);
  EXPECT_EQ(message(png(header, bytes({5, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1}))),
            "a.png: has rows of the unknown filter 5; copy or download the file again");
}

TEST(Png, MakesColoursGrey) {
  const auto red_and_white = bytes({0, 255, 0, 0, 255, 255, 255});
  EXPECT_EQ(pixels(png({.width = 2, .colours = 2}, red_and_white)),
            (std::vector<uint8_t>{76, 255}));
  EXPECT_EQ(pixels(png({.width = 1, .colours = 6}, bytes({0, 0, 255, 0, 7}))),
            (std::vector<uint8_t>{150}));
  EXPECT_EQ(pixels(png({.width = 2, .colours = 4}, bytes({0, 9, 255, 8, 0}))),
            (std::vector<uint8_t>{9, 8}));
  const auto palette = chunk("PLTE", bytes({0, 0, 255, 1, 1, 1}));
  EXPECT_EQ(pixels(png({.width = 2, .colours = 3}, bytes({0, 1, 0}), palette)),
            (std::vector<uint8_t>{1, 29}));
  EXPECT_EQ(message(png({.width = 2, .colours = 3}, bytes({0, 1, 2}), palette)),
            "a.png: has a colour outside its palette; copy or download the file again");
  EXPECT_EQ(message(png({.width = 2, .colours = 3}, bytes({0, 1, 2}))),
            "a.png: has no palette; copy or download the file again");
}

TEST(Png, SkipsPartsThatAPictureDoesNotNeed) {
  const auto rows = bytes({0, 1, 2, 3});
  EXPECT_EQ(pixels(png({}, rows, chunk("tEXt", "by hand"))), (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ(message(png({}, rows, chunk("NEED", ""))), "a.png: has an unknown part 'NEED'");
}

TEST(Png, SaysWhatItDoesNotRead) {
  const auto rows = bytes({0, 1, 2, 3});
  EXPECT_EQ(message("GIF89a"), "a.png: is not a PNG file");
  EXPECT_EQ(message(png({.interlaced = 1}, rows)),
            "a.png: is interlaced; save it without interlacing");
  EXPECT_EQ(message(png({.depth = 16}, rows)), "a.png: has 16 bits a sample; 8 bits are read");
  EXPECT_EQ(message(png({.width = 0}, rows)), "a.png: is 1 x 0 pixels; a side may have 1..16384");
  EXPECT_EQ(message(png({.width = 1 << 20}, rows)),
            "a.png: is 1 x 1048576 pixels; a side may have 1..16384");
  EXPECT_EQ(message(png({.colours = 5}, rows)),
            "a.png: has colours of type 5; copy or download the file again");
  EXPECT_EQ(message(png({.filters = 1}, rows)),
            "a.png: is packed in an unknown way; copy or download the file again");
}

TEST(Png, FindsFilesThatWereCutOrChanged) {
  const auto whole = to_png(picture(8, 8));
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(message(whole.substr(0, size)), "no error") << size;
  for (size_t at = 0; at < whole.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      auto changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      EXPECT_NE(message(changed), "no error") << at;
    }
  EXPECT_EQ(message(whole + "x"),
            "a.png: other bytes follow the PNG data; copy or download the file again");
  EXPECT_EQ(message(whole.substr(0, whole.size() - 1)),
            "a.png: the PNG data is cut off; copy or download the file again");
  auto flipped = whole;
  flipped[50] = static_cast<char>(flipped[50] ^ 1);
  EXPECT_EQ(message(flipped),
            "a.png: the checksum of its part 'IDAT' is wrong; copy or download the file again");
}

TEST(Png, TakesNoMemoryForPixelsThatCannotBeThere) {
  const Header huge = {.width = 16384, .height = 16384};
  EXPECT_EQ(message(png(huge, bytes({0, 1}))),
            "a.png: the PNG data is cut off; copy or download the file again");
  EXPECT_EQ(message(png({}, bytes({0, 1, 2}))),
            "a.png: its pixels are cut off or corrupt; copy or download the file again");
  EXPECT_EQ(message(png({}, bytes({0, 1, 2, 3, 4}))),
            "a.png: its pixels are cut off or corrupt; copy or download the file again");
}

TEST(Png, ReadsPixelsInSeveralPartsThatFollowEachOther) {
  const auto data = packed(bytes({0, 1, 2, 3}));
  const auto first = chunk("IDAT", data.substr(0, 4)), second = chunk("IDAT", data.substr(4));
  const auto begin = kSignature + Header().chunk_of(), end = chunk("IEND", "");
  EXPECT_EQ(pixels(begin + first + second + end), (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ(message(begin + first + chunk("tEXt", "x") + second + end),
            "a.png: its pixels are not in one place; copy or download the file again");
}

}  // namespace
}  // namespace longbow::corpus
