#pragma once
#include <gtest/gtest.h>
#include <lzma.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <string>

#include "longbow/core/error.h"
#include "longbow/core/file.h"

namespace longbow::corpus {

// The message of the UserError that `act` throws.
template <class Act>
std::string mistake(const Act& act) {
  try {
    act();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no UserError was thrown";
}

// An empty folder of the running test's own, removed afterwards.
class Scratch {
 public:
  Scratch() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) / "longbow_corpus" /
              test->test_suite_name() / test->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~Scratch() { std::filesystem::remove_all(folder_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& contents) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    write_file(path(name), contents);
    return path(name);
  }
  std::string str() const { return folder_.string(); }
  // The message of the UserError that `act` throws, without this folder's own path.
  template <class Act>
  std::string mistake(const Act& act) const {
    auto text = corpus::mistake(act);
    for (size_t at; (at = text.find(str() + "/")) != std::string::npos;)
      text.erase(at, str().size() + 1);
    return text;
  }

 private:
  std::filesystem::path folder_;
};

inline std::string gzipped(const std::string& text) {
  z_stream stream = {};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

inline std::string xzipped(const std::string& text) {
  std::string packed(lzma_stream_buffer_bound(text.size()), '\0');
  size_t size = 0;
  lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, nullptr,
                          reinterpret_cast<const uint8_t*>(text.data()), text.size(),
                          reinterpret_cast<uint8_t*>(packed.data()), &size, packed.size());
  packed.resize(size);
  return packed;
}

// A file of the collection of public data sets, which lies beside the repository where there is
// one.
inline std::string collected(const std::string& name) {
  return std::string(LONGBOW_SOURCE_DIR) + "/../shared/data/" + name;
}

}  // namespace longbow::corpus

#define LONGBOW_NEEDS(path) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there"
