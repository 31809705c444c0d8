#include "longbow/data/encoding/text_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "longbow/core/file.h"
#include "longbow/core/log.h"
#include "longbow/core/on_all_cores.h"
#include "longbow/core/work.h"
#include "longbow/corpus/readers/classes.h"
#include "longbow/data/encoding/cache.h"
#include "longbow/data/encoding/pulled_texts.h"
#include "longbow/data/encoding/record_encoder.h"
#include "longbow/data/samples/stored_file.h"
#include "longbow/text/formats/read_tokenizer.h"
#include "longbow/text/formats/tokenizer_json.h"
#include "longbow/text/trainers/train_tokenizer.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kVersion = 3;  // of what is made of a record
constexpr const char* kSplits[] = {"train", "valid", "test"};
constexpr const char *kTokenizer = "tokenizer.json", *kTargetTokenizer = "target_tokenizer.json";
// Records that are encoded together: so many of them, or so many bytes of text.
constexpr size_t kRecords = 4096, kBytes = size_t{1} << 24;

// cache.json
struct CacheCard {
  std::vector<std::string> labels = {};
  int64_t truncated = 0, dropped = 0;
  Node checksums = Node::map();   // of the samples of each split
  Node tokenizers = Node::map();  // by the name of their file
};
template <class V>
void fields(V& v, CacheCard& c) {
  v("labels", c.labels, "classes by id");
  v("truncated", c.truncated, "samples that data.max_tokens has cut", at_least(0));
  v("dropped", c.dropped, "questions whose answer was cut off", at_least(0));
  v("checksums", c.checksums, "SHA-256 of the samples of each split");
  v("tokenizers", c.tokenizers, "SHA-256 of the file of each tokenizer");
}

// Tokens that begin and end a text, under the names of the usual tokenizers.
int64_t first_of(const TextCodec& codec) {
  return codec.find({"[CLS]", "<s>", "<cls>", "<bos>", "[BOS]"});
}
int64_t last_of(const TextCodec& codec) {
  return codec.find({"[SEP]", "</s>", "<sep>", "<eos>", "[EOS]", "<|endoftext|>"});
}

// Whether every byte of a text is a token of it.
bool is_bytes(const TokenizerConfig& config) {
  const auto& training = config.training;
  return config.file.empty() && training.kind == TokenizerKind::bytes && !training.normal_form &&
         !training.lowercase && !training.strip_accents && !training.special_tokens;
}

class CachedCorpus {
 public:
  CachedCorpus(const DataConfig& data, const Node& options, const TextCorpus& corpus)
      : data_(data), corpus_(corpus) {
    for (const auto& file : corpus.files)
      file_sums_.push_back(fs::is_directory(file) ? sha256_of_folder(file) : sha256_of_file(file));
    key_ = key(options);
  }

  Splits load() {
    folder_ = cached_folder(cache_folder(data_.cache), data_.name, key_,
                            [this](const std::string& draft) { fill(draft); });
    return opened();
  }

 private:
  static std::string in(const std::string& folder, const std::string& name) {
    return (fs::path(folder) / name).string();
  }

  // Of a tokenizer that exists, what it does counts, not where it is.
  std::string key(const Node& options) const {
    auto tokenizer = written(data_.tokenizer);
    if (const auto& file = data_.tokenizer.file; !file.empty())
      tokenizer["file"] = Node::string(sha256(tokenizer_json(read_tokenizer(file))));
    Node files = Node::list();
    for (const auto& sum : file_sums_) files.items.push_back(Node::string(sum));
    return sha256(to_json(Node::map({{"version", Node::integer(kVersion)},
                                     {"name", Node::string(data_.name)},
                                     {"options", options},
                                     {"tokenizer", tokenizer},
                                     {"max_tokens", Node::integer(most_tokens())},
                                     {"seed", Node::integer(static_cast<int64_t>(data_.seed))},
                                     {"files", files}}),
                          0));
  }

  void fill(const std::string& draft) {
    const auto first = corpus_.shared ? std::vector<size_t>{0, 1} : std::vector<size_t>{0};
    EncoderParts parts = {.codec = codec_for(first),
                          .max_tokens = most_tokens(),
                          .max_bytes = is_bytes(data_.tokenizer) ? most_tokens() : 0};
    if (!corpus_.shared) parts.second = codec_for({1});
    set_ends(parts);
    CacheCard card = {.labels = labels()};
    parts.labels = card.labels;
    keep_tokenizer(draft, kTokenizer, *parts.codec, card);
    if (parts.second) keep_tokenizer(draft, kTargetTokenizer, *parts.second, card);
    const RecordEncoder encoder(corpus_, parts);
    const TextCorpus::Read* reads[] = {&corpus_.train, &corpus_.valid, &corpus_.test};
    for (size_t i = 0; i < std::size(kSplits); ++i) {
      const auto folder = in(draft, kSplits[i]);
      encode(*reads[i], encoder, kSplits[i], folder, card);
      const auto data = dataset_in(folder);
      if (data->size() == 0)
        throw UserError(Place{corpus_.files.front(), 0},
                        fmt::format("the split {} has no samples", kSplits[i]),
                        "name a file for it, or give more data");
      card.checksums[kSplits[i]] = Node::string(data->checksum());
    }
    write_file(in(draft, "cache.json"), to_json(written(card), 2) + "\n");
  }

  // Of each text, 0 = any. A running text is in windows and is not cut.
  int64_t most_tokens() const { return corpus_.role == TextRole::language ? 0 : data_.max_tokens; }

  static void keep_tokenizer(const std::string& draft, const char* name, const TextCodec& codec,
                             CacheCard& card) {
    const auto text = tokenizer_json(codec.tokenizer());
    write_file(in(draft, name), text);
    card.tokenizers[name] = Node::string(sha256(text));
  }

  std::shared_ptr<const TextCodec> codec_for(const std::vector<size_t>& which) const {
    const auto& config = data_.tokenizer;
    if (!config.file.empty()) return std::make_shared<TextCodec>(read_tokenizer(config.file));
    PulledTexts texts(corpus_.train, which);
    std::optional<Work> work;
    const char* shown = nullptr;
    return std::make_shared<TextCodec>(train_tokenizer(
        config.training, [&](std::string& text) { return texts.next(text); },
        [&](const char* stage, int64_t done, int64_t total) {
          if (stage != shown) work.emplace(fmt::format("tokenizer, {}", shown = stage), total);
          work->reached(done);
        }));
  }

  // A target needs a beginning and an end: ids of their own where the tokenizer has none.
  void set_ends(EncoderParts& parts) const {
    const auto& codec = parts.second ? *parts.second : *parts.codec;
    parts.begin = first_of(codec);
    parts.end = last_of(codec);
    auto next = codec.vocabulary();
    if (corpus_.role != TextRole::translation) return;
    if (parts.begin == 0) parts.begin = next++;
    if (parts.end == 0 || parts.end == parts.begin) parts.end = next;
  }

  std::vector<std::string> labels() const {
    if (corpus_.role != TextRole::classes || !corpus_.classes.empty()) return corpus_.classes;
    corpus::ClassNames names;
    corpus_.train([&](corpus::Record&& record) { names.add(record.label); });
    return names.sorted();
  }

  void encode(const TextCorpus::Read& read, const RecordEncoder& encoder, const std::string& split,
              const std::string& folder, CacheCard& card) const {
    auto kind = encoder.kind();
    // Training compares nothing with texts, so that its split needs none.
    kind.has_reference = corpus_.role == TextRole::translation && split != kSplits[0];
    SampleWriter writer(folder, kind);
    Work work("encoding " + split, 0);
    int64_t records = 0;
    const auto put = [&](std::vector<Encoded> samples) {
      for (auto& [sample, cut] : samples) {
        card.truncated += cut ? 1 : 0;
        card.dropped += sample ? 0 : 1;
        if (sample) writer.add(*sample);
      }
      work.reached(records += std::ssize(samples));
    };
    std::vector<corpus::Record> waiting;
    size_t bytes = 0;  // of the texts that wait
    const auto flush = [&] {
      put(encode_all(encoder, std::exchange(waiting, {}), kind.has_reference));
      bytes = 0;
    };
    read([&](corpus::Record&& record) {
      for (const auto& text : record.texts) bytes += text.size();
      waiting.push_back(std::move(record));
      if (waiting.size() >= kRecords || bytes >= kBytes) flush();
    });
    flush();
    writer.finish();
  }

  struct Encoded {
    std::optional<Sample> sample;
    bool cut = false;
  };
  // On all cores.
  static std::vector<Encoded> encode_all(const RecordEncoder& encoder,
                                         const std::vector<corpus::Record>& records,
                                         bool with_references) {
    std::vector<Encoded> all(records.size());
    on_all_cores(std::ssize(records), [&](int64_t number) {
      const auto i = static_cast<size_t>(number);
      auto& sample = all[i].sample = encoder.sample(records[i], all[i].cut);
      if (sample && with_references) sample->reference = records[i].texts.at(1);
    });
    return all;
  }

  std::shared_ptr<const Dataset> dataset_in(const std::string& folder) const {
    return corpus_.role == TextRole::language ? open_windows(folder, corpus_.windows)
                                              : open_samples(folder);
  }

  std::shared_ptr<const TextCodec> codec_in(const char* name, const CacheCard& card) const {
    const auto path = in(folder_, name);
    const auto text = read_file(stored_path(path));
    const auto* sum = card.tokenizers.find(name);
    if (!sum || sum->text != sha256(text)) fail_stored(path, "not what was written");
    return std::make_shared<TextCodec>(parse_tokenizer_json(text, path));
  }

  Splits opened() const {
    const auto card = read_card<CacheCard>(in(folder_, "cache.json"));
    Splits splits = {.codec = codec_in(kTokenizer, card)};
    if (!corpus_.shared) splits.second_codec = codec_in(kTargetTokenizer, card);
    splits.vocabulary = splits.codec->vocabulary();
    splits.symbols = splits.codec->symbols();
    splits.labels = card.labels;
    splits.classes = std::ssize(card.labels);
    splits.truncated = card.truncated;
    set_ids(splits);
    for (const auto& [name, sum] : card.checksums.entries)
      splits.checksums[name] = as_string(sum, name);
    for (size_t i = 0; i < file_sums_.size(); ++i)
      splits.checksums[shown_name(corpus_.files[i])] = file_sums_[i];
    const auto opened = [&](const char* split) {
      auto data = dataset_in(in(folder_, split));
      for (int64_t i = 0; i < data->size(); ++i)
        splits.max_length = std::max(splits.max_length, data->length(i));
      return data;
    };
    splits.train = opened(kSplits[0]);
    splits.valid = opened(kSplits[1]);
    splits.test = opened(kSplits[2]);
    tell(card);
    return splits;
  }

  // Of a folder the path in data.path: those of several splits may have the same name.
  std::string shown_name(const fs::path& file) const {
    return fs::is_directory(file) ? file.lexically_relative(data_.path).generic_string()
                                  : file.filename().string();
  }

  // What is not as it is in the files.
  void tell(const CacheCard& card) const {
    if (card.truncated > 0)
      info(fmt::format("{}: {} records cut to {} tokens", data_.name, card.truncated,
                       data_.max_tokens));
    if (card.dropped > 0)
      warn(fmt::format("{}: {} questions left out, their answers are after token {}", data_.name,
                       card.dropped, data_.max_tokens));
  }

  void set_ids(Splits& splits) const {
    const bool reads_whole =
        corpus_.role != TextRole::language && corpus_.role != TextRole::translation;
    const auto first = first_of(*splits.codec), last = last_of(*splits.codec);
    if (reads_whole && first > 0 && last > 0) splits.frame = {first, last};
    if (corpus_.role == TextRole::language) splits.end = corpus_.keep_lines ? last : 0;
    if (corpus_.role != TextRole::translation) return;
    EncoderParts parts = {.codec = splits.codec, .second = splits.second_codec};
    set_ends(parts);
    splits.begin = parts.begin;
    splits.end = parts.end;
    auto& symbols = splits.second_codec ? splits.second_symbols : splits.symbols;
    auto& vocabulary = splits.second_codec ? splits.second_vocabulary : splits.vocabulary;
    if (splits.second_codec) {
      symbols = splits.second_codec->symbols();
      vocabulary = splits.second_codec->vocabulary();
    }
    for (const auto& [id, name] : {std::pair(splits.begin, "<s>"), {splits.end, "</s>"}})
      if (id >= vocabulary) {
        symbols.emplace_back(name);
        vocabulary = id + 1;
      }
  }

  const DataConfig& data_;
  const TextCorpus& corpus_;
  std::vector<std::string> file_sums_;  // of corpus_.files
  std::string key_, folder_;
};

}  // namespace

Splits encode_corpus(const DataConfig& data, const Node& options, const TextCorpus& corpus) {
  if (corpus.role == TextRole::language)
    refuse_cut(data, corpus.windows.length, "lower data." + data.name + ".length instead");
  return CachedCorpus(data, options, corpus).load();
}

}  // namespace longbow
