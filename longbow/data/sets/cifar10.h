#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "longbow/data/readers/images.h"

namespace longbow {

// Of red, green and blue: as Pillow and torchvision do it, or TensorFlow.
enum class Grey { pil, tf };
constexpr std::array<std::string_view, 2> names_of(Grey) {
  return {"pil", "tf"};
}
uint8_t pil_grey(uint8_t red, uint8_t green, uint8_t blue);
uint8_t tf_grey(uint8_t red, uint8_t green, uint8_t blue);

}  // namespace longbow
