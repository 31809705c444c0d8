// Any bytes are a text: ids without offsets are those with them, and offsets lie in the text.
#include "longbow/text/formats/tokenizer_json.h"
#include "tests/fuzz/fuzz.h"

namespace {

std::string tokenizer_of(const char* normalizer, const char* pre_tokenizer) {
  return std::string(R"({"added_tokens":[{"id":0,"content":"<s>","lstrip":true,"rstrip":true,)") +
         R"("special":true},{"id":4,"content":"ab","single_word":true,"normalized":true}],)" +
         R"("normalizer":)" + normalizer + R"(,"pre_tokenizer":)" + pre_tokenizer +
         R"(,"post_processor":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true},)" +
         R"("model":{"type":"BPE","unk_token":"?","fuse_unk":true,"vocab":{"<s>":0,"?":1,"a":2,)" +
         R"("b":3,"ab":4,"\u0120":5},"merges":["a b"]}})";
}

void encode(const longbow::Tokenizer& tokenizer, const std::string& text) {
  longbow::EncodeOptions options;
  options.offsets = longbow::EncodeOptions::OffsetUnit::bytes;
  options.add_special_tokens = false;
  const auto encoded = tokenizer.encode(text, options);
  std::vector<int32_t> ids;
  tokenizer.ids_of(text, ids);
  if (ids != encoded.ids) longbow::fuzz::found("ids alone differ");
  for (const auto& place : encoded.offsets)
    if (place.begin > place.end || place.end > text.size()) longbow::fuzz::found("offsets");
  tokenizer.decode(ids);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longbow;
  static const auto read = [](const char* normalizer, const char* pre_tokenizer) {
    return parse_tokenizer_json(tokenizer_of(normalizer, pre_tokenizer), "t.json");
  };
  static const Tokenizer bert =
      read(R"({"type":"BertNormalizer"})", R"({"type":"BertPreTokenizer"})");
  static const Tokenizer gpt2 =
      read("null", R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true})");
  static const Tokenizer forms =
      read(R"({"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Nmt"},{"type":"Strip",)"
           R"("strip_left":true,"strip_right":true},{"type":"NFD"},{"type":"Replace","pattern":)"
           R"({"Regex":"\\s*"},"content":"_"}]})",
           R"({"type":"Metaspace","replacement":"_","prepend_scheme":"first"})");
  return fuzz::hold(data, size, [](const std::string& text) {
    for (const auto* tokenizer : {&bert, &gpt2, &forms}) encode(*tokenizer, text);
  });
}
