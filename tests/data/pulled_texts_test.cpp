#include "longbow/data/encoding/pulled_texts.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace longbow {
namespace {

corpus::Record record_of(std::vector<std::string> texts) {
  corpus::Record record;
  record.texts = std::move(texts);
  return record;
}

TEST(PulledTexts, AreThoseOfTheRecordsInTheirOrder) {
  PulledTexts texts(
      [](const corpus::RecordSink& sink) {
        for (int i = 0; i < 3000; ++i) sink(record_of({std::to_string(i), "-", "not asked for"}));
      },
      {0, 1});
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    ASSERT_TRUE(texts.next(text));
    ASSERT_EQ(text, std::to_string(i));
    ASSERT_TRUE(texts.next(text));
    ASSERT_EQ(text, "-");
  }
  EXPECT_FALSE(texts.next(text));
}

// 16 of them are a batch; of batches one is being taken, eight wait, and one is being read.
TEST(PulledTexts, AreFewAheadWhereTheyAreLong) {
  std::atomic<int64_t> read = 0;
  PulledTexts texts(
      [&](const corpus::RecordSink& sink) {
        for (int i = 0; i < 400; ++i) {
          ++read;
          sink(record_of({std::string(size_t{1} << 16, 'x')}));
        }
      },
      {0});
  std::string text;
  ASSERT_TRUE(texts.next(text));
  EXPECT_LE(read, 160);
}

TEST(PulledTexts, EndWithWhatTheReaderThrew) {
  PulledTexts texts(
      [](const corpus::RecordSink& sink) {
        sink(record_of({"a"}));
        throw std::runtime_error("a mistake");
      },
      {0});
  std::string text;
  EXPECT_THROW(texts.next(text), std::runtime_error);
}

}  // namespace
}  // namespace longbow
