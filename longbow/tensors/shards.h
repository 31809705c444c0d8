#pragma once
// Weights in several safetensors files beside an index, as Hugging Face's library writes large
// models:
//   {"weight_map": {"a.weight": "model-00001-of-00002.safetensors", …}}
#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace longbow {

// All tensors of the files that an index names. UserError where an entry is no plain file name, a
// file is missing or broken, or files and index do not hold the same tensors.
std::map<std::string, at::Tensor> load_shards(const std::string& index);

// Writes the tensors by name into files of at most `most` bytes of them each, a larger tensor alone
// into one, and then the index.
void save_shards(const std::string& folder, const std::map<std::string, at::Tensor>& tensors,
                 int64_t most);

}  // namespace longbow
