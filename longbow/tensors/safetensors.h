#pragma once
// The safetensors format: eight bytes of header length, a JSON header, then the bytes of the
// tensors without gaps. Reading trusts nothing: every size is checked against the file before
// memory is asked for.
#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace longbow {

struct SafeFile {
  std::map<std::string, at::Tensor> tensors{};
  std::map<std::string, std::string> metadata{};
};

SafeFile load_safetensors(const std::string& path);
SafeFile parse_safetensors(const std::string& bytes,
                           const std::string& name);  // `name` stands in errors
// Atomic; the same tensors give the same bytes. Tensors may lie on any device and have any strides.
void save_safetensors(const std::string& path, const std::map<std::string, at::Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace longbow
