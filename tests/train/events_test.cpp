#include "longbow/train/run/events.h"

#include <gtest/gtest.h>

#include <bit>

#include "longbow/core/file.h"
#include "tests/train/parity.h"
#include "tests/train/scratch.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

std::vector<Event> events_in(const std::string& folder) {
  std::vector<Event> events;
  for (const auto& entry : fs::directory_iterator(folder))
    for (const auto& event : parse_events(read_file(entry.path().string())))
      events.push_back(event);
  return events;
}

TEST(Events, ChecksumsAreThoseOfThePublishedTexts) {
  // The check value of CRC-32C of "123456789" is 0xe3069283.
  EXPECT_EQ(masked_crc32c("123456789"), std::rotr(0xe3069283u, 15) + 0xa282ead8u);
  const auto vectors = parity("formats/events.json");
  for (const auto& sample : vectors.at("crc_samples"))
    EXPECT_EQ(masked_crc32c(sample.at("text").get<std::string>()),
              sample.at("masked").get<uint32_t>());
}

// The records of a file that TensorBoard's own writer made: each read, and each of a kind that we
// write made again, byte for byte.
TEST(Events, AreThoseOfThePublishedFile) {
  const auto vectors = parity("formats/events.json");
  const auto file = read_file(parity_file("formats/events.parity.tfevents"));
  ASSERT_EQ(file.size(), vectors.at("bytes").get<size_t>());
  const auto events = parse_events(file);
  const auto& records = vectors.at("records");
  ASSERT_EQ(events.size(), records.size());
  size_t written = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    const auto& event = events[i];
    const auto& record = records[i];
    SCOPED_TRACE(record.dump());
    EXPECT_EQ(event.offset, record.at("offset").get<int64_t>());
    EXPECT_EQ(event.length, record.at("length").get<int64_t>());
    EXPECT_EQ(event.time, record.at("wall_time").get<double>());
    EXPECT_EQ(event.step, record.at("step").get<int64_t>());
    EXPECT_EQ(event.version, record.value("file_version", ""));
    EXPECT_EQ(event.tag, record.value("tag", ""));
    EXPECT_EQ(event.plugin, record.value("plugin", ""));
    std::string again;
    if (record.value("kind", "") == "simple_value") {
      EXPECT_EQ(std::bit_cast<uint32_t>(event.value), record.at("value_bits").get<uint32_t>());
      again = scalar_event(event.time, event.step, event.tag, event.value);
    } else if (record.contains("strings")) {
      EXPECT_EQ(event.strings, record.at("strings").get<std::vector<std::string>>());
      again = text_event(event.time, event.step, event.tag, event.strings.at(0));
    } else if (record.contains("values")) {
      EXPECT_EQ(event.value, static_cast<float>(record.at("values").at(0).get<double>()));
    }
    if (again.empty()) continue;
    ++written;
    const auto whole =
        file.substr(static_cast<size_t>(event.offset), static_cast<size_t>(event.length) + 16);
    EXPECT_EQ(framed(again), whole);
  }
  EXPECT_EQ(written, 22u);
}

TEST(Events, AFileIsNamedAsTensorBoardLooksForItAndStartsWithItsVersion) {
  const auto folder = scratch();
  EventFile file(folder, {});
  file.scalars(3, {{"train/loss", 0.5}});
  file.text(0, "config", "task: recall");
  const auto name = fs::path(file.path()).filename().string();
  EXPECT_TRUE(name.starts_with("events.out.tfevents.")) << name;
  const auto events = events_in(folder);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[1].step, 3);
  EXPECT_EQ(events[1].tag, "train/loss");
  EXPECT_EQ(events[1].value, 0.5f);
  EXPECT_GT(events[1].time, 1.7e9);
  EXPECT_EQ(events[2].tag, "config/text_summary");
  EXPECT_EQ(events[2].strings, std::vector<std::string>{"task: recall"});
}

TEST(Events, AResumedFileGoesOnBehindItsLastStep) {
  const auto folder = scratch();
  {
    EventFile file(folder, {});
    for (int64_t step : {1, 2, 3, 4})
      file.scalars(step, {{"train/loss", static_cast<double>(step)}});
    file.scalars(2, {{"test/loss", 9}});
    append_bytes(file.path(), framed(scalar_event(0, 2, "torn", 1)).substr(0, 20));
  }
  EventFile file(folder, {.step = 2});
  file.scalars(3, {{"train/loss", 7}});
  std::vector<std::pair<int64_t, float>> found;
  for (const auto& event : events_in(folder))
    if (event.version.empty()) found.emplace_back(event.step, event.value);
  EXPECT_EQ(found, (std::vector<std::pair<int64_t, float>>{{1, 1.f}, {2, 2.f}, {3, 7.f}}));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
}

TEST(Events, ABrokenRecordEndsTheReading) {
  const auto one = framed(scalar_event(1, 1, "a", 1)), two = framed(scalar_event(2, 2, "b", 2));
  EXPECT_EQ(parse_events(one + two).size(), 2u);
  auto flipped = one + two;
  flipped[one.size() + 14] ^= 1;
  EXPECT_EQ(parse_events(flipped).size(), 1u);
  auto endless = one + two;
  endless[one.size() + 5] = 1;  // of the length
  EXPECT_EQ(parse_events(endless).size(), 1u);
  EXPECT_EQ(parse_events((one + two).substr(0, one.size() + 15)).size(), 1u);
  EXPECT_TRUE(parse_events("").empty());
}

}  // namespace
}  // namespace longbow
