#include "longbow/data/readers/jpeg.h"

#include <fmt/format.h>

#include "longbow/core/error.h"

#ifdef LONGBOW_JPEG
#include <csetjmp>
#include <cstddef>
#include <cstdio>
// After cstdio: it uses FILE without an include of its own.
#include <jpeglib.h>
#endif

namespace longbow {

#ifdef LONGBOW_JPEG
namespace {

enum class Decoded { image, broken, other_size };

struct Decoder {
  jpeg_decompress_struct info = {};
  jpeg_error_mgr errors = {};
  std::jmp_buf broken = {};
};

void leave(j_common_ptr info) {
  std::longjmp(static_cast<Decoder*>(info->client_data)->broken, 1);
}
void count_warning(j_common_ptr info, int level) {
  if (level < 0) leave(info);  // data that is corrupt or cut off
}

// Nothing here has a destructor, which a jump would leave out.
Decoded decode(Decoder& decoder, std::string_view bytes, const ImageSize& size, uint8_t* pixels) {
  auto& info = decoder.info;
  info.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = leave;
  decoder.errors.emit_message = count_warning;
  info.client_data = &decoder;
  if (setjmp(decoder.broken)) {
    jpeg_destroy_decompress(&info);
    return Decoded::broken;
  }
  jpeg_create_decompress(&info);
  info.client_data = &decoder;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info, TRUE);
  const bool fits = info.image_height == static_cast<JDIMENSION>(size.height) &&
                    info.image_width == static_cast<JDIMENSION>(size.width);
  if (fits) {
    info.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      auto* row = pixels + static_cast<size_t>(info.output_scanline) * info.output_width * 3;
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
  }
  jpeg_destroy_decompress(&info);
  return fits ? Decoded::image : Decoded::other_size;
}

}  // namespace

bool reads_jpeg() {
  return true;
}

std::vector<uint8_t> read_jpeg(std::string_view bytes, const std::string& name,
                               const ImageSize& size) {
  std::vector<uint8_t> pixels(static_cast<size_t>(3 * size.height * size.width));
  Decoder decoder;
  const auto result = decode(decoder, bytes, size, pixels.data());
  if (result == Decoded::broken)
    throw UserError(Place{name, 0}, "is not a JPEG image, or is corrupt");
  if (result == Decoded::other_size)
    throw UserError(Place{name, 0}, fmt::format("the image is {} x {} pixels, expected {} x {}",
                                                decoder.info.image_height, decoder.info.image_width,
                                                size.height, size.width));
  return pixels;
}

#else

bool reads_jpeg() {
  return false;
}

std::vector<uint8_t> read_jpeg(std::string_view, const std::string& name, const ImageSize&) {
  throw UserError(Place{name, 0}, "this build does not read JPEG images",
                  "install libjpeg's headers and build longbow again");
}

#endif

}  // namespace longbow
