#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "longbow/core/error.h"
#include "longbow/core/file.h"
#include "longbow/core/folder.h"
#include "longbow/data/readers/source.h"
#include "longbow/data/samples/text_codec.h"

namespace longbow {

// A folder with files of the test, and a cache of its own.
class TextFolder : public testing::Test {
 protected:
  TextFolder() : folder_(testing::TempDir() + "text_folder_" + name()) {
    std::filesystem::remove_all(folder_);
    make_folder(folder_);
  }
  ~TextFolder() override { std::filesystem::remove_all(folder_); }

  void file(const std::string& name, const std::string& contents) const {
    write_file(in(name), contents);
  }
  std::string in(const std::string& name) const {
    return (std::filesystem::path(folder_) / name).string();
  }
  DataConfig config(const std::string& yaml) const {
    auto config = read<DataConfig>(parse_yaml(yaml, "test"));
    config.path = folder_;
    config.cache = in("cache");
    return config;
  }
  Splits load(const std::string& yaml) const { return load_data(config(yaml)); }
  std::string message(const std::string& yaml) const {
    try {
      (void)load(yaml);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }
  int64_t caches() const {
    return std::filesystem::exists(in("cache"))
               ? std::distance(std::filesystem::directory_iterator(in("cache")), {})
               : 0;
  }

 private:
  static std::string name() {
    return testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  std::string folder_;
};

inline std::string text_of(const Splits& splits, const std::vector<int32_t>& tokens) {
  const std::vector<int64_t> ids(tokens.begin(), tokens.end());
  return splits.codec->decode(ids);
}

// A table of two classes, each with a word of its own.
inline std::string rows(int64_t count) {
  std::string text = "text,label\n";
  for (int64_t i = 0; i < count; ++i)
    text +=
        fmt::format("row {} is {},{}\n", i, i % 3 == 0 ? "red" : "blue", i % 3 == 0 ? "r" : "b");
  return text;
}

inline constexpr const char* kTable =
    "{name: table, tokenizer: {train: words}, table: {train: t.csv}}";

}  // namespace longbow
