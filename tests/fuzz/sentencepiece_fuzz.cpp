// A SentencePiece model: what is read encodes, and can be written as tokenizer.json and read again.
#include "longbow/text/formats/sentencepiece.h"

#include "longbow/text/formats/tokenizer_json.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longbow;
  return fuzz::hold(data, size, [](const std::string& bytes) {
    const auto tokenizer = parse_sentencepiece(bytes, "m.model");
    const auto written = tokenizer_json(tokenizer, -1);
    if (tokenizer_json(parse_tokenizer_json(written, "written"), -1) != written)
      fuzz::found(written);
    const auto encoded = tokenizer.encode(" A b\xed\x95\x9c  1\n<s>");
    tokenizer.decode(encoded.ids);
  });
}
