// A table in every format and with several options: the first byte chooses them.
#include "longbow/corpus/readers/table.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longbow;
  using namespace longbow::corpus;
  if (size == 0) return 0;
  TableOptions options;
  options.format = static_cast<TableFormat>(data[0] % names_of(TableFormat{}).size());
  options.quotes = data[0] & 0x20 ? Quotes::doubled : Quotes::automatic;
  options.empty = data[0] & 0x40 ? Empty::keep : Empty::skip;
  options.header = (data[0] & 0x80) == 0;
  if (!options.header) options.text = "1", options.label = "2";
  const TextOptions text = {.malformed = data[0] & 0x10 ? Malformed::replace : Malformed::error,
                            .max_line = 1000};
  return fuzz::hold(data + 1, size - 1, [&](const std::string& bytes) {
    int64_t given = 0;
    auto file = TextFile::in_memory(bytes, "f.txt", text);
    const auto counts = read_table(file, options, [&](Record&& record) {
      if (record.texts.size() != 1 || record.line < 1) fuzz::found("a record without its parts");
      ++given;
    });
    if (counts.records != given) fuzz::found("miscounted its records");
  });
}
