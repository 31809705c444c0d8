#include "longbow/tensors/safetensors.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "longbow/core/error.h"
#include "longbow/core/file.h"
#include "longbow/core/seed.h"
#include "tests/support/memory.h"
#include "tests/support/parity.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

std::string scratch_file() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  auto folder = fs::path(testing::TempDir()) / "longbow";
  fs::create_directories(folder);
  return (folder / (std::string(test->name()) + ".safetensors")).string();
}

std::string refused(const std::string& bytes) {
  try {
    parse_safetensors(bytes, "w.safetensors");
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

std::string with_header(const std::string& header, const std::string& data) {
  uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

std::string bytes_of(const at::Tensor& tensor) {
  auto whole = tensor.contiguous();
  return {static_cast<const char*>(whole.const_data_ptr()), whole.nbytes()};
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

void expect_same(const SafeFile& left, const SafeFile& right) {
  EXPECT_EQ(left.metadata, right.metadata);
  ASSERT_EQ(left.tensors.size(), right.tensors.size());
  for (const auto& [name, tensor] : left.tensors) {
    ASSERT_TRUE(right.tensors.count(name)) << name;
    const auto& other = right.tensors.at(name);
    EXPECT_EQ(tensor.scalar_type(), other.scalar_type()) << name;
    EXPECT_EQ(tensor.sizes(), other.sizes()) << name;
    EXPECT_EQ(bytes_of(tensor), bytes_of(other)) << name;
  }
}

std::set<std::string> files_in(const fs::path& folder, const std::string& beginning) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    if (const auto name = entry.path().filename().string(); name.starts_with(beginning))
      names.insert(name);
  return names;
}

const std::map<std::string, at::ScalarType> kScalars = {
    {"BOOL", at::kBool},          {"U8", at::kByte},          {"I8", at::kChar},
    {"I16", at::kShort},          {"U16", at::kUInt16},       {"I32", at::kInt},
    {"U32", at::kUInt32},         {"I64", at::kLong},         {"U64", at::kUInt64},
    {"F16", at::kHalf},           {"BF16", at::kBFloat16},    {"F32", at::kFloat},
    {"F64", at::kDouble},         {"C64", at::kComplexFloat}, {"F8_E4M3", at::kFloat8_e4m3fn},
    {"F8_E5M2", at::kFloat8_e5m2}};

// Element by element, as numbers; the published list writes null for not-a-number.
void expect_values(const at::Tensor& tensor, const nlohmann::json& values) {
  const auto flat = (tensor.is_complex() ? at::view_as_real(tensor) : tensor).flatten();
  const auto wide = flat.to(at::kDouble);
  int64_t next = 0;
  for (const auto& value : values) {
    for (const auto& part : value.is_array() ? value : nlohmann::json::array({value})) {
      const double got = wide[next++].item<double>();
      if (part.is_null())
        EXPECT_TRUE(std::isnan(got)) << next;
      else
        EXPECT_EQ(got, part.is_string() ? std::stod(part.get<std::string>()) : part.get<double>())
            << next;
    }
  }
  EXPECT_EQ(next, wide.numel());
}

SafeFile small_file() {
  return {.tensors = {{"weight", at::arange(6, at::kFloat).reshape({2, 3})},
                      {"steps", at::arange(2, at::kLong)},
                      {"keep", at::ones({3}, at::kBool)},
                      {"none", at::empty({0, 4}, at::kHalf)}},
          .metadata = {{"format", "pt"}}};
}

}  // namespace

TEST(Safetensors, EveryTypeAndShapeComesBack) {
  SafeFile file{.metadata = {{"format", "pt"}, {"설명", "\"값\"\n"}}};
  for (auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt,
                    at::kShort, at::kChar, at::kByte, at::kBool, at::kFloat8_e4m3fn,
                    at::kFloat8_e5m2, at::kUInt16, at::kComplexFloat})
    file.tensors[std::string("t.") + c10::toString(type)] = at::arange(6).reshape({2, 3}).to(type);
  file.tensors["scalar"] = at::scalar_tensor(2.5);
  file.tensors["empty"] = at::empty({3, 0}, at::kFloat);
  auto path = scratch_file();
  save_safetensors(path, file.tensors, file.metadata);
  expect_same(load_safetensors(path), file);
}

TEST(Safetensors, StridesDoNotMatter) {
  auto x = at::arange(12, at::kFloat).reshape({3, 4});
  auto path = scratch_file();
  save_safetensors(
      path, {{"t", x.t()}, {"part", x.slice(1, 1, 3)}, {"wide", x.slice(0, 0, 1).expand({5, 4})}});
  auto file = load_safetensors(path);
  EXPECT_TRUE(file.tensors["t"].equal(x.t()));
  EXPECT_TRUE(file.tensors["part"].equal(x.slice(1, 1, 3)));
  EXPECT_TRUE(file.tensors["wide"].equal(x.slice(0, 0, 1).expand({5, 4})));
}

TEST(Safetensors, AFileIsAlignedAndItsBytesAreFixed) {
  auto path = scratch_file();
  auto file = small_file();
  save_safetensors(path, file.tensors, file.metadata);
  auto bytes = read_file(path);
  std::string header =
      R"({"__metadata__":{"format":"pt"},"steps":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)"
      R"("weight":{"dtype":"F32","shape":[2,3],"data_offsets":[16,40]},"none":{"dtype":"F16","shape":[0,4],)"
      R"("data_offsets":[40,40]},"keep":{"dtype":"BOOL","shape":[3],"data_offsets":[40,43]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(bytes.substr(8, bytes.size() - 8 - 43), header);
  EXPECT_EQ((bytes.size() - 43) % 8, 0u);
}

TEST(Safetensors, RefusesToSaveWhatCannotBeRead) {
  auto path = scratch_file();
  EXPECT_THROW(save_safetensors(path, {{"a", at::Tensor()}}), c10::Error);
  EXPECT_THROW(save_safetensors(path, {{"\xff", at::ones({1})}}), c10::Error);
  EXPECT_THROW(save_safetensors(path, {}, {{"a", "\xff"}}), c10::Error);
  EXPECT_THROW(save_safetensors(path, {{"__metadata__", at::ones({1})}}), c10::Error);
  EXPECT_THROW(save_safetensors(path, {{"a", at::ones({1}, at::kComplexDouble)}}), c10::Error);
}

TEST(Safetensors, ALongHeaderIsRefusedBeforeItTakesMemory) {
  std::string zeros, metadata = R"({"__metadata__":{"a":[0)";
  for (int i = 0; i < 1000; ++i) zeros += ",0";
  for (int i = 0; i < 30'000; ++i) metadata += zeros;
  const auto many = with_header(metadata + "]}}", "");
  EXPECT_EQ(refused(many), "w.safetensors:1: holds more than 1000000 values");
  EXPECT_LT(peak_bytes([&] { parse_safetensors(many, "w.safetensors"); }), int64_t{600} << 20);
  const auto longest = with_header("{" + std::string(100'000'000, ' '), "");
  EXPECT_EQ(refused(longest),
            "w.safetensors: the header claims 100000001 bytes, the format allows 100000000; not a "
            "whole safetensors file");
  EXPECT_LT(peak_bytes([&] { parse_safetensors(longest, "w.safetensors"); }), int64_t{1} << 20);
}

TEST(Safetensors, MistakesNameTheFileTheTensorAndTheReason) {
  std::string end = "; not a whole safetensors file";
  EXPECT_EQ(refused(""), "w.safetensors: 0 bytes are too few for a header" + end);
  EXPECT_EQ(refused(std::string(8, '\xff')),
            "w.safetensors: the header claims 18446744073709551615 bytes, the file has 8" + end);
  EXPECT_EQ(refused(with_header(" {}", "")),
            "w.safetensors: the header does not start with '{'" + end);
  EXPECT_EQ(refused(with_header("{\"a\":", "")),
            "w.safetensors:1: not valid JSON: the text ends where a value is expected");
  auto one = [&](const std::string& entry) {
    return refused(with_header("{\"a\":" + entry + "}", "12345678"));
  };
  EXPECT_EQ(one(R"({"dtype":"F33","shape":[2],"data_offsets":[0,8]})"),
            "w.safetensors: tensor 'a': dtype 'F33' is unknown" + end);
  EXPECT_EQ(one(R"({"shape":[2],"data_offsets":[0,8]})"),
            "w.safetensors: tensor 'a': dtype is missing or not a string" + end);
  EXPECT_EQ(one(R"({"dtype":"F32","data_offsets":[0,8]})"),
            "w.safetensors: tensor 'a': shape is missing or not a list" + end);
  EXPECT_EQ(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,9]})"),
            "w.safetensors: tensor 'a': data_offsets has 3 numbers, not 2" + end);
  EXPECT_EQ(one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"),
            "w.safetensors: tensor 'a': shape holds -2" + end);
  EXPECT_EQ(one(R"({"dtype":"F32","shape":[2.5],"data_offsets":[0,8]})"),
            "w.safetensors:1: tensor 'a': shape is '2.5', not an integer; write a whole number "
            "such as 64");
  EXPECT_EQ(one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
            "w.safetensors: tensor 'a': the shape needs 12 bytes, the offsets give 8" + end);
  EXPECT_EQ(one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,12]})"),
            "w.safetensors: tensor 'a': ends at byte 12 of 8" + end);
  EXPECT_EQ(one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"),
            "w.safetensors: tensor 'a': begins at byte 8 and ends at 0" + end);
  EXPECT_EQ(one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"),
            "w.safetensors: tensor 'a': starts at byte 4, but byte 0 is unused" + end);
  EXPECT_EQ(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})"),
            "w.safetensors: 4 bytes follow the last tensor" + end);
  EXPECT_EQ(one(R"({"dtype":"F32","shape":[0,4611686018427387904,8],"data_offsets":[0,0]})"),
            "w.safetensors: tensor 'a': the shape overflows 64 bits" + end);
  std::string ones = "1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  EXPECT_EQ(one(R"({"dtype":"I64","shape":[)" + ones + R"(],"data_offsets":[0,8]})"),
            "w.safetensors: tensor 'a': shape has 65 numbers, more than 64" + end);
  EXPECT_EQ(one(R"({"dtype":"BOOL","shape":[8],"data_offsets":[0,8]})"),
            "w.safetensors: tensor 'a': a BOOL byte is neither 0 nor 1" + end);
  EXPECT_EQ(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})"),
            "w.safetensors: tensor 'a': unknown key 'x'" + end);
  EXPECT_EQ(refused(with_header("{\"__metadata__\":[]}", "")),
            "w.safetensors: the metadata is not a map of strings" + end);
  EXPECT_EQ(refused(with_header("{\"__metadata__\":{\"a\":1}}", "")),
            "w.safetensors: metadata 'a' is not a string" + end);
}

TEST(Safetensors, ReadsThePublishedFilesExactly) {
  const auto folder = parity_file("formats");
  auto list = nlohmann::json::parse(read_file(folder / "safetensors.json"));
  auto unread = files_in(folder / "safetensors", "ok-");
  ASSERT_GT(unread.size(), 5u);
  std::set<std::string> types;
  for (const auto& expected : list["valid"]) {
    unread.erase(expected["file"]);
    auto path = (folder / "safetensors" / expected["file"]).string();
    SCOPED_TRACE(path);
    auto file = load_safetensors(path);
    std::map<std::string, std::string> metadata;
    if (!expected["metadata"].is_null()) metadata = expected["metadata"];
    EXPECT_EQ(file.metadata, metadata);
    ASSERT_EQ(file.tensors.size(), expected["tensors"].size());
    for (const auto& [name, tensor] : expected["tensors"].items()) {
      ASSERT_TRUE(file.tensors.count(name)) << name;
      SCOPED_TRACE(name);
      types.insert(tensor["dtype"]);
      EXPECT_EQ(file.tensors[name].scalar_type(), kScalars.at(tensor["dtype"]));
      EXPECT_EQ(file.tensors[name].sizes(), tensor["shape"].get<std::vector<int64_t>>());
      EXPECT_EQ(bytes_of(file.tensors[name]), from_hex(tensor["bytes_hex"]));
      expect_values(file.tensors[name], tensor["values"]);
    }
    auto copy = scratch_file();
    save_safetensors(copy, file.tensors, file.metadata);
    expect_same(load_safetensors(copy), file);
  }
  EXPECT_EQ(unread, std::set<std::string>());
  EXPECT_EQ(types.size(), kScalars.size());
}

// What is said of each published malformed file, after its path.
const std::map<std::string, std::string> kReasons = {
    {"bool_value_2", "tensor 'a': a BOOL byte is neither 0 nor 1"},
    {"dtype_lower_case", "tensor 'a': dtype 'f32' is unknown"},
    {"duplicate_name", "duplicate key 'a'"},
    {"empty_file", "0 bytes are too few for a header"},
    {"first_not_at_zero", "tensor 'a': starts at byte 4, but byte 0 is unused"},
    {"gap", "tensor 'b': starts at byte 8, but byte 4 is unused"},
    {"header_is_array", "the header does not start with '{'"},
    {"header_leading_blank", "the header does not start with '{'"},
    {"header_length_2_to_63", "the header claims 9223372036854775808 bytes, the file has 70"},
    {"header_length_max", "the header claims 18446744073709551615 bytes, the file has 70"},
    {"header_length_zero", "the header does not start with '{'"},
    {"header_longer_than_file", "the header claims 5000 bytes, the file has 70"},
    {"header_not_json", "not valid JSON: a key in double quotes is expected"},
    {"header_not_utf8", "not valid JSON: not UTF-8"},
    {"header_two_objects", "not valid JSON: text after the end of the value"},
    {"metadata_is_list", "the metadata is not a map of strings"},
    {"metadata_not_string", "metadata 'n' is not a string"},
    {"missing_offsets", "tensor 'a': data_offsets is missing or not a list"},
    {"nested_json", "not valid JSON: nested deeper than 100 levels"},
    {"offset_negative", "tensor 'a': data_offsets holds -8"},
    {"offset_past_end", "tensor 'a': ends at byte 8 of 4"},
    {"offset_reversed", "tensor 'a': begins at byte 8 and ends at 0"},
    {"offset_three_numbers", "tensor 'a': data_offsets has 3 numbers, not 2"},
    {"overlap", "tensor 'b': starts at byte 4, but byte 8 is next"},
    {"shape_fraction", "tensor 'a': shape is '2.5', not an integer"},
    {"shape_negative", "tensor 'a': shape holds -2"},
    {"shape_overflow", "tensor 'a': the shape overflows 64 bits"},
    {"shape_overflow_to_right_size", "tensor 'a': the shape overflows 64 bits"},
    {"shape_string", "tensor 'a': shape is missing or not a list"},
    {"short_length_field", "5 bytes are too few for a header"},
    {"size_mismatch", "tensor 'a': the shape needs 12 bytes, the offsets give 8"},
    {"trailing_bytes", "4 bytes follow the last tensor"},
    {"unknown_dtype", "tensor 'a': dtype 'F33' is unknown"},
};

TEST(Safetensors, RefusesThePublishedMalformedFilesWithTheReason) {
  const auto folder = parity_file("formats");
  const auto files = files_in(folder / "safetensors", "bad-");
  ASSERT_GT(files.size(), 20u);
  for (const auto& file : files) {
    const auto path = (folder / "safetensors" / file).string();
    std::string message = "accepted";
    try {
      load_safetensors(path);
    } catch (const UserError& error) {
      message = error.what();
    }
    EXPECT_TRUE(message.starts_with(path)) << file << ": " << message;
    const auto name = file.substr(4, file.rfind('.') - 4);
    const auto reason = kReasons.find(name);
    if (reason == kReasons.end()) continue;  // of another folder than the published one
    EXPECT_NE(message.find(reason->second), std::string::npos) << name << ": " << message;
  }
}

TEST(Safetensors, MutationsAreRefusedOrConsistent) {
  auto path = scratch_file();
  auto file = small_file();
  save_safetensors(path, file.tensors, file.metadata);
  auto valid = read_file(path);
  Stream stream(1, "safetensors");
  int accepted = 0, turned_down = 0;
  for (int i = 0; i < 5000; ++i) {
    auto bytes = valid;
    for (int64_t edits = 1 + stream.below(3); edits > 0; --edits) {
      auto at = static_cast<size_t>(stream.below(static_cast<int64_t>(bytes.size()) + 1));
      switch (stream.below(5)) {
        case 0:
          if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << stream.below(8)));
          break;
        case 1:
          if (stream.below(8) == 0) bytes.resize(at);
          break;
        case 2:
          bytes.insert(at, 1, static_cast<char>('0' + stream.below(10)));
          break;
        case 3:
          bytes.erase(std::min(at, bytes.size()), static_cast<size_t>(stream.below(3)));
          break;
        default:
          if (at < bytes.size() && std::isdigit(static_cast<unsigned char>(bytes[at])))
            bytes[at] = static_cast<char>('0' + stream.below(10));
          break;
      }
    }
    try {
      auto read = parse_safetensors(bytes, "w.safetensors");
      if (i % 10 == 0) {
        save_safetensors(path, read.tensors, read.metadata);
        expect_same(load_safetensors(path), read);
      }
      ++accepted;
    } catch (const UserError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      ++turned_down;
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(turned_down, 1000);
}

}  // namespace longbow
