#include "longbow/train/run/events.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <filesystem>
#include <optional>

#include "longbow/core/file.h"

namespace fs = std::filesystem;

namespace longbow {
namespace {

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0u);
    table[byte] = crc;
  }
  return table;
}

// Bytes, least significant first.
template <class T>
std::string fixed(T value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}
template <class T>
T read_fixed(std::string_view bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value |= static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return value;
}

// Protocol buffers: a key says the number of a field and how it is written.
enum Wire : uint64_t { varint = 0, eight_bytes = 1, counted = 2, four_bytes = 5 };

std::string number(uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}
std::string key(uint64_t field, Wire wire) {
  return number(field << 3 | wire);
}
std::string integer(uint64_t field, int64_t value) {
  return key(field, varint) + number(static_cast<uint64_t>(value));
}
std::string bytes(uint64_t field, std::string_view value) {
  return key(field, counted) + number(value.size()) + std::string(value);
}

// Event: 1 time, 2 step, 3 version, 5 summary, 10 source { 1 writer }.
// Summary: 1 value { 1 tag, 2 scalar, 8 tensor, 9 metadata { 1 plug-in { 1 name } } }.
// Tensor: 1 type, 2 shape { 2 dimension { 1 size } }, 8 strings.
std::string event(double time, int64_t step, const std::string& rest) {
  return key(1, eight_bytes) + fixed(std::bit_cast<uint64_t>(time)) +
         (step == 0 ? "" : integer(2, step)) + rest;
}
constexpr int64_t kStringType = 7;

struct Field {
  uint64_t field = 0, number = 0;
  std::string_view bytes;
};

// Takes the fields of a message off its front, one a call; nothing at its end or where it breaks.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}
  std::optional<Field> next() {
    const auto found = read_number();
    if (!found) return {};
    Field field = {.field = *found >> 3, .number = 0, .bytes = {}};
    switch (*found & 7) {
      case varint: {
        const auto value = read_number();
        if (!value) return {};
        field.number = *value;
        return field;
      }
      case eight_bytes:
        return take(field, 8);
      case four_bytes:
        return take(field, 4);
      case counted: {
        const auto size = read_number();
        return size ? take(field, *size) : std::nullopt;
      }
      default:
        return {};
    }
  }

 private:
  std::optional<Field> take(Field field, uint64_t size) {
    if (size > rest_.size()) return {};
    field.bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return field;
  }
  std::optional<uint64_t> read_number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    return {};
  }
  std::string_view rest_;
};

// The first field of that number inside a message, where it is made of bytes.
std::string_view inside(std::string_view message, uint64_t wanted) {
  Fields fields(message);
  while (const auto field = fields.next())
    if (field->field == wanted) return field->bytes;
  return {};
}

void read_tensor(std::string_view tensor, Event& event) {
  Fields fields(tensor);
  while (const auto field = fields.next()) {
    if (field->field == 5 && field->bytes.size() >= 4)
      event.value = std::bit_cast<float>(read_fixed<uint32_t>(field->bytes));
    if (field->field == 8) event.strings.emplace_back(field->bytes);
  }
}

void read_value(std::string_view value, Event& event) {
  Fields fields(value);
  while (const auto field = fields.next()) {
    if (field->field == 1) event.tag = field->bytes;
    if (field->field == 2 && field->bytes.size() == 4)
      event.value = std::bit_cast<float>(read_fixed<uint32_t>(field->bytes));
    if (field->field == 8) read_tensor(field->bytes, event);
    if (field->field == 9) event.plugin = inside(inside(field->bytes, 1), 1);
  }
}

Event parse_payload(std::string_view payload) {
  Event event;
  Fields fields(payload);
  while (const auto field = fields.next()) {
    if (field->field == 1 && field->bytes.size() == 8)
      event.time = std::bit_cast<double>(read_fixed<uint64_t>(field->bytes));
    if (field->field == 2) event.step = static_cast<int64_t>(field->number);
    if (field->field == 3) event.version = field->bytes;
    if (field->field == 5) read_value(inside(field->bytes, 1), event);
  }
  return event;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string newest_in(const std::string& folder) {
  std::string newest;
  for (const auto& entry : fs::directory_iterator(folder))
    if (const auto path = entry.path().string();
        entry.path().filename().string().starts_with("events.out.tfevents.") && path > newest)
      newest = path;
  return newest;
}

}  // namespace

uint32_t masked_crc32c(std::string_view bytes) {
  static constexpr auto kTable = crc_table();
  uint32_t crc = ~0u;
  for (const char byte : bytes)
    crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return std::rotr(~crc, 15) + 0xa282ead8u;
}

std::string framed(std::string_view payload) {
  const auto length = fixed(static_cast<uint64_t>(payload.size()));
  return length + fixed(masked_crc32c(length)) + std::string(payload) +
         fixed(masked_crc32c(payload));
}

std::string version_event(double time) {
  return event(time, 0, bytes(3, "brain.Event:2") + bytes(10, bytes(1, "longbow")));
}

std::string scalar_event(double time, int64_t step, const std::string& tag, float value) {
  const auto written = key(2, four_bytes) + fixed(std::bit_cast<uint32_t>(value));
  return event(time, step, bytes(5, bytes(1, bytes(1, tag) + written)));
}

std::string text_event(double time, int64_t step, const std::string& tag, const std::string& text) {
  const auto shape = bytes(2, bytes(2, integer(1, 1)));
  const auto tensor = integer(1, kStringType) + shape + bytes(8, text);
  const auto metadata = bytes(1, bytes(1, "text"));
  return event(time, step,
               bytes(5, bytes(1, bytes(1, tag) + bytes(8, tensor) + bytes(9, metadata))));
}

std::vector<Event> parse_events(std::string_view bytes) {
  constexpr size_t kHead = 12, kTail = 4;
  std::vector<Event> events;
  for (size_t offset = 0; bytes.size() - offset >= kHead + kTail;) {
    const auto record = bytes.substr(offset);
    const auto length = read_fixed<uint64_t>(record);
    if (read_fixed<uint32_t>(record.substr(8)) != masked_crc32c(record.substr(0, 8)) ||
        length > record.size() - kHead - kTail)
      break;
    const auto payload = record.substr(kHead, length);
    if (read_fixed<uint32_t>(record.substr(kHead + length)) != masked_crc32c(payload)) break;
    events.push_back(parse_payload(payload));
    events.back().offset = static_cast<int64_t>(offset);
    events.back().length = static_cast<int64_t>(length);
    offset += kHead + length + kTail;
  }
  return events;
}

bool LogStart::keeps(std::string_view split, int64_t of_step) const {
  if (split == "test" || of_step > step) return false;
  return evaluated || split != "valid" || of_step < step;
}

EventFile::EventFile(const std::string& folder, const LogStart& start) : path_(newest_in(folder)) {
  if (path_.empty()) {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    path_ = (fs::path(folder) / fmt::format("events.out.tfevents.{:010}.{}.{}.0",
                                            static_cast<int64_t>(now()), host.data(), ::getpid()))
                .string();
    write_file(path_, framed(version_event(now())));
    return;
  }
  const auto before = read_file(path_);
  std::string rest;
  for (const auto& event : parse_events(before)) {
    const auto split = std::string_view(event.tag).substr(0, event.tag.find('/'));
    if (!event.version.empty() || (event.strings.empty() && start.keeps(split, event.step)))
      rest +=
          before.substr(static_cast<size_t>(event.offset), static_cast<size_t>(event.length) + 16);
  }
  write_file(path_, rest.empty() ? framed(version_event(now())) : rest);
}

void EventFile::scalars(int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  std::string records;
  for (const auto& [tag, value] : values)
    records += framed(scalar_event(now(), step, tag, static_cast<float>(value)));
  append_bytes(path_, records);
}

void EventFile::text(int64_t step, const std::string& tag, const std::string& text) {
  append_bytes(path_, framed(text_event(now(), step, tag + "/text_summary", text)));
}

}  // namespace longbow
