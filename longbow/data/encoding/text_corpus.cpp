#include "longbow/data/encoding/text_corpus.h"

#include <filesystem>

#include "longbow/core/error.h"
#include "longbow/corpus/files/text_files.h"
#include "longbow/data/encoding/published.h"

namespace longbow {

namespace {

// The side of each record of a file, in their order.
using SideOf = std::function<corpus::Side(const corpus::Record&)>;
using Sides = std::function<SideOf()>;

Sides by_hash(const corpus::SplitOptions& fractions, uint64_t seed) {
  const auto split = std::make_shared<corpus::HashSplit>(fractions, seed);
  return [split] { return [split](const corpus::Record& record) { return split->side(record); }; };
}

// Records are counted first.
Sides by_order(const corpus::SplitOptions& fractions, const TextCorpus::Read& read) {
  return [=] {
    int64_t total = 0;
    read([&](corpus::Record&&) { ++total; });
    const auto split = std::make_shared<corpus::OrderedSplit>(fractions, total);
    return [split, position = int64_t{0}](const corpus::Record&) mutable {
      return split->side(position++);
    };
  };
}

// Those of the splits that have no file.
corpus::SplitOptions needed(const TextFiles& files, corpus::SplitOptions fractions) {
  if (!files.valid.empty()) fractions.valid_fraction = 0;
  if (!files.test.empty()) fractions.test_fraction = 0;
  return fractions;
}

}  // namespace

void divide(TextCorpus& corpus, const TextFiles& files, const corpus::SplitOptions& fractions,
            Parting parting, uint64_t seed, const ReadFile& read) {
  const auto whole = [read](const std::string& file) -> TextCorpus::Read {
    return [=](const corpus::RecordSink& sink) { read(file, sink); };
  };
  const auto own = needed(files, fractions);
  const auto sides =
      parting == Parting::hash ? by_hash(own, seed) : by_order(own, whole(files.train));
  const auto part = [=](corpus::Side side) -> TextCorpus::Read {
    return [=](const corpus::RecordSink& sink) {
      const auto side_of = sides();
      read(files.train, [&](corpus::Record&& record) {
        if (side_of(record) == side) sink(std::move(record));
      });
    };
  };
  const bool undivided = !files.valid.empty() && !files.test.empty();
  corpus.train = undivided ? whole(files.train) : part(corpus::Side::train);
  corpus.valid = files.valid.empty() ? part(corpus::Side::valid) : whole(files.valid);
  corpus.test = files.test.empty() ? part(corpus::Side::test) : whole(files.test);
}

void read_from(TextCorpus& corpus, const TextFiles& files, const corpus::SplitOptions& fractions,
               Parting parting, uint64_t seed, const ReadFile& read) {
  divide(corpus, files, fractions, parting, seed, read);
  for (const auto& file : {files.train, files.valid, files.test}) {
    if (file.empty()) continue;
    const auto all = corpus::text_files(file);
    corpus.files.insert(corpus.files.end(), all.begin(), all.end());
  }
}

void check_fractions(const TextFiles& files, const corpus::SplitOptions& fractions) {
  corpus::check_split(needed(files, fractions));
}

TextFiles files_in(const std::string& folder, const TextFiles& names) {
  const auto path = [&](const std::string& name) {
    return name.empty() ? name : packed_or_plain(folder, name);
  };
  return {path(names.train), path(names.valid), path(names.test)};
}

Node folder_of(const std::filesystem::path& file) {
  const auto folder = file.parent_path();
  return Node::string(folder.empty() ? "." : folder.string());
}

std::string packed_or_plain(const std::string& folder, const std::string& name) {
  if (auto found = find_packed_or_plain(folder, name)) return *found;
  throw UserError(Place{(std::filesystem::path(folder) / name).string(), 0}, "no such file",
                  "nor " + name + ".xz or " + name + ".gz");
}

}  // namespace longbow
