#include "longbow/tensors/safetensors.h"

#include <ATen/ATen.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "longbow/core/config.h"
#include "longbow/core/file.h"
#include "longbow/core/utf8.h"

namespace longbow {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little endian");

constexpr size_t kLengthBytes = 8;
constexpr size_t kMostHeaderBytes = 100'000'000;
constexpr size_t kMostDimensions = 64;
constexpr const char* kMetadata = "__metadata__";

struct Type {
  const char* name;
  at::ScalarType scalar;
};
constexpr std::array<Type, 16> kTypes = {{{"F64", at::kDouble},
                                          {"F32", at::kFloat},
                                          {"F16", at::kHalf},
                                          {"BF16", at::kBFloat16},
                                          {"F8_E4M3", at::kFloat8_e4m3fn},
                                          {"F8_E5M2", at::kFloat8_e5m2},
                                          {"I64", at::kLong},
                                          {"I32", at::kInt},
                                          {"I16", at::kShort},
                                          {"I8", at::kChar},
                                          {"U64", at::kUInt64},
                                          {"U32", at::kUInt32},
                                          {"U16", at::kUInt16},
                                          {"U8", at::kByte},
                                          {"BOOL", at::kBool},
                                          {"C64", at::kComplexFloat}}};

struct Entry {
  std::string name;
  at::ScalarType type;
  std::vector<int64_t> shape;
  int64_t begin, end;
};

class SafeReader {
 public:
  SafeReader(std::string_view bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}

  SafeFile read() {
    auto header = split_header();
    SafeFile file;
    std::vector<Entry> entries;
    for (const auto& [key, value] : header.entries) {
      if (key == kMetadata) {
        file.metadata = metadata(value);
      } else {
        entries.push_back(entry(key, value));
      }
    }
    check_layout(entries);
    for (const auto& e : entries) file.tensors.emplace(e.name, tensor(e));
    return file;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError({name_, 0}, what, "not a whole safetensors file");
  }
  [[noreturn]] void fail(const std::string& tensor, const std::string& what) const {
    fail(c10::str("tensor ", quote(tensor), ": ", what));
  }

  Node split_header() {
    if (bytes_.size() < kLengthBytes)
      fail(c10::str(bytes_.size(), " bytes are too few for a header"));
    uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), kLengthBytes);
    if (length > bytes_.size() - kLengthBytes)
      fail(c10::str("the header claims ", length, " bytes, the file has ", bytes_.size()));
    if (length > kMostHeaderBytes)
      fail(c10::str("the header claims ", length, " bytes, the format allows ", kMostHeaderBytes));
    auto text = bytes_.substr(kLengthBytes, length);
    data_ = bytes_.substr(kLengthBytes + length);
    if (text.empty() || text[0] != '{') fail("the header does not start with '{'");
    return parse_json(std::string(text), name_);
  }

  std::map<std::string, std::string> metadata(const Node& node) const {
    std::map<std::string, std::string> values;
    if (!node.is_map()) fail("the metadata is not a map of strings");
    for (const auto& [key, value] : node.entries) {
      if (!value.is_scalar() || !value.quoted)
        fail(c10::str("metadata ", quote(key), " is not a string"));
      values[key] = value.text;
    }
    return values;
  }

  Entry entry(const std::string& name, const Node& node) const {
    for (const auto& key : node.keys())
      if (key != "dtype" && key != "shape" && key != "data_offsets")
        fail(name, c10::str("unknown key ", quote(key)));
    const Node* dtype = node.find("dtype");
    if (!dtype || !dtype->is_scalar() || !dtype->quoted)
      fail(name, "dtype is missing or not a string");
    auto type = std::find_if(kTypes.begin(), kTypes.end(),
                             [&](const Type& t) { return t.name == dtype->text; });
    if (type == kTypes.end()) fail(name, c10::str("dtype ", quote(dtype->text), " is unknown"));
    auto offsets = sizes(name, node, "data_offsets");
    if (offsets.size() != 2)
      fail(name, c10::str("data_offsets has ", offsets.size(), " numbers, not 2"));
    auto shape = sizes(name, node, "shape");
    if (shape.size() > kMostDimensions)
      fail(name, c10::str("shape has ", shape.size(), " numbers, more than ", kMostDimensions));
    return {name, type->scalar, std::move(shape), offsets[0], offsets[1]};
  }

  std::vector<int64_t> sizes(const std::string& name, const Node& node,
                             const std::string& key) const {
    const Node* list = node.find(key);
    if (!list || !list->is_list()) fail(name, key + " is missing or not a list");
    std::vector<int64_t> values;
    for (const auto& item : list->items) {
      values.push_back(as_integer(item, c10::str("tensor ", quote(name), ": ", key)));
      if (values.back() < 0) fail(name, c10::str(key, " holds ", values.back()));
    }
    return values;
  }

  // The tensors must cover the data from its first byte to its last, each byte once.
  void check_layout(std::vector<Entry>& entries) const {
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    int64_t covered = 0;
    for (const auto& e : entries) {
      check_size(e);
      if (e.begin != covered)
        fail(e.name, c10::str("starts at byte ", e.begin, ", but byte ", covered, " is ",
                              e.begin > covered ? "unused" : "next"));
      covered = e.end;
    }
    auto left = data_.size() - static_cast<size_t>(covered);
    if (left > 0) fail(c10::str(left, " bytes follow the last tensor"));
  }

  // A dimension of 0 empties a tensor, but the others must still multiply: strides are made of
  // them.
  void check_size(const Entry& e) const {
    auto width = static_cast<int64_t>(c10::elementSize(e.type));
    int64_t bytes = width;
    bool empty = false;
    for (int64_t size : e.shape) {
      empty = empty || size == 0;
      if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes))
        fail(e.name, "the shape overflows 64 bits");
    }
    if (empty) bytes = 0;
    if (e.begin > e.end) fail(e.name, c10::str("begins at byte ", e.begin, " and ends at ", e.end));
    if (static_cast<uint64_t>(e.end) > data_.size())
      fail(e.name, c10::str("ends at byte ", e.end, " of ", data_.size()));
    if (bytes != e.end - e.begin)
      fail(e.name,
           c10::str("the shape needs ", bytes, " bytes, the offsets give ", e.end - e.begin));
  }

  at::Tensor tensor(const Entry& e) const {
    auto part = data_.substr(static_cast<size_t>(e.begin), static_cast<size_t>(e.end - e.begin));
    bool is_bool = e.type == at::kBool;
    if (is_bool && std::any_of(part.begin(), part.end(), [](char c) { return c != 0 && c != 1; }))
      fail(e.name, "a BOOL byte is neither 0 nor 1");
    auto out = at::empty(e.shape, at::TensorOptions().dtype(e.type).device(at::kCPU));
    if (!part.empty()) std::memcpy(out.data_ptr(), part.data(), part.size());
    return out;
  }

  std::string_view bytes_, data_;
  std::string name_;
};

const char* type_name(const std::string& tensor, at::ScalarType scalar) {
  auto type =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const Type& t) { return t.scalar == scalar; });
  TORCH_CHECK(type != kTypes.end(), "save_safetensors: '", tensor, "' is ", scalar,
              ", which the format does not know");
  return type->name;
}

struct Stored {
  std::string name;
  at::Tensor tensor;
};

// Wide elements first, so that every tensor is aligned; names decide among equals.
std::vector<Stored> in_file_order(const std::map<std::string, at::Tensor>& tensors) {
  std::vector<Stored> stored;
  for (const auto& [name, tensor] : tensors) {
    TORCH_CHECK(tensor.defined() && tensor.layout() == at::kStrided, "save_safetensors: '", name,
                "' is undefined or not strided");
    TORCH_CHECK(find_invalid_utf8(name) == std::string::npos,
                "save_safetensors: a name is not UTF-8");
    TORCH_CHECK(name != kMetadata, "save_safetensors: a tensor cannot be called ", kMetadata);
    stored.push_back(
        {name, tensor.detach().to(at::kCPU).resolve_conj().resolve_neg().contiguous()});
  }
  std::stable_sort(stored.begin(), stored.end(), [](const Stored& a, const Stored& b) {
    return a.tensor.element_size() > b.tensor.element_size();
  });
  return stored;
}

std::string header_of(const std::vector<Stored>& stored,
                      const std::map<std::string, std::string>& metadata) {
  auto header = Node::map();
  for (const auto& [key, value] : metadata) {
    bool is_text = find_invalid_utf8(key + value) == std::string::npos;
    TORCH_CHECK(is_text, "save_safetensors: metadata '", key, "' is not UTF-8");
    header[kMetadata][key] = Node::string(value);
  }
  int64_t offset = 0;
  for (const auto& [name, tensor] : stored) {
    auto shape = Node::list();
    for (int64_t size : tensor.sizes()) shape.items.push_back(Node::integer(size));
    int64_t end = offset + static_cast<int64_t>(tensor.nbytes());
    header.entries.emplace_back(
        name,
        Node::map({{"dtype", Node::string(type_name(name, tensor.scalar_type()))},
                   {"shape", std::move(shape)},
                   {"data_offsets", Node::list({Node::integer(offset), Node::integer(end)})}}));
    offset = end;
  }
  auto text = to_json(header);
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  return text;
}

}  // namespace

SafeFile load_safetensors(const std::string& path) {
  return parse_safetensors(read_file(path), path);
}

SafeFile parse_safetensors(const std::string& bytes, const std::string& name) {
  return SafeReader(bytes, name).read();
}

void save_safetensors(const std::string& path, const std::map<std::string, at::Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  auto stored = in_file_order(tensors);
  auto header = header_of(stored, metadata);
  uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), kLengthBytes);
  bytes += header;
  for (const auto& [name, tensor] : stored)
    bytes.append(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
  write_file(path, bytes);
}

}  // namespace longbow
