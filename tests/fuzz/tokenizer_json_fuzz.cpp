// A tokenizer.json: what is read is written and read again as the same, and encodes.
#include "longbow/text/formats/tokenizer_json.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longbow;
  return fuzz::hold(data, size, [](const std::string& text) {
    const auto tokenizer = parse_tokenizer_json(text, "tokenizer.json");
    const auto written = tokenizer_json(tokenizer, -1);
    const auto again = parse_tokenizer_json(written, "written");
    if (tokenizer_json(again, -1) != written) fuzz::found(written);
    EncodeOptions bare;  // a file may ask for megabytes of padding
    bare.use_file_settings = false;
    const std::string probe = "A b's 12\xed\x95\x9c\n<s>\xff e\xcc\x81";
    const auto encoded = tokenizer.encode(probe, bare);
    tokenizer.decode(encoded.ids, Tokenizer::SpecialTokens::kept);
  });
}
