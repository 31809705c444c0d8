#pragma once
#include "longbow/models/linformer_pytorch/linformer.h"

namespace longbow {

// linformer-pytorch's own example, at 262144 tokens in its README.
inline LinformerConfig readme_example(int64_t length) {
  return {.input_size = length,
          .channels = 64,
          .dim_k = 128,
          .dim_ff = 128,
          .dim_d = 256,
          .dropout_ff = 0.15,
          .nhead = 4,
          .depth = 2,
          .dropout = 0.1,
          .activation = Activation::gelu};
}

}  // namespace longbow
