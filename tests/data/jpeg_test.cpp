#include "longbow/data/readers/jpeg.h"

#include <gtest/gtest.h>

#include "tests/data/flat_jpeg.h"
#include "tests/data/folder.h"

namespace longbow {
namespace {

TEST(Jpeg, GivesTheColoursOfEachPixel) {
  if (!reads_jpeg()) GTEST_SKIP() << "built without libjpeg";
  const auto pixels = read_jpeg(flat_jpeg(), "a.jpg", {32, 32});
  ASSERT_EQ(pixels.size(), 3 * 32 * 32);
  for (size_t i = 0; i < pixels.size(); i += 3)
    EXPECT_EQ((std::vector<int>{pixels[i], pixels[i + 1], pixels[i + 2]}),
              (std::vector<int>{200, 100, 50}))
        << i;
}

TEST(Jpeg, SaysWhatIsWrong) {
  const auto mistake = [](const std::string& bytes, const ImageSize& size) {
    return error_of([&] { read_jpeg(bytes, "a.jpg", size); });
  };
  if (!reads_jpeg()) {
    EXPECT_EQ(mistake(flat_jpeg(), {32, 32}),
              "a.jpg: this build does not read JPEG images; install libjpeg's headers and build "
              "longbow again");
    return;
  }
  EXPECT_EQ(mistake(flat_jpeg(), {28, 30}), "a.jpg: the image is 32 x 32 pixels, expected 28 x 30");
  EXPECT_EQ(mistake("", {32, 32}), "a.jpg: is not a JPEG image, or is corrupt");
  EXPECT_EQ(mistake("GIF89a", {32, 32}), "a.jpg: is not a JPEG image, or is corrupt");
  for (const size_t size : {20, 200, 260})
    EXPECT_EQ(mistake(flat_jpeg().substr(0, size), {32, 32}),
              "a.jpg: is not a JPEG image, or is corrupt")
        << size;
}

}  // namespace
}  // namespace longbow
