#include "longbow/data/encoding/translations.h"

#include "longbow/data/encoding/published.h"

namespace longbow {

PairedFiles paired_files(const std::string& set, const std::string& folder,
                         const std::vector<std::string>& names, const std::string& first,
                         const std::string& second) {
  std::vector<std::string> missing;
  for (const auto& name : names) {
    const auto left = name + "." + first, right = name + "." + second;
    if (find_packed_or_plain(folder, left) || find_packed_or_plain(folder, right))
      return {.first = published_file(set, folder, {left}),
              .second = published_file(set, folder, {right})};
    missing.push_back(left);
  }
  return {.first = published_file(set, folder, missing)};  // has none of them: its message
}

TextCorpus translation_corpus(const PairedSplits& files, const corpus::ParallelOptions& options) {
  const auto read = [&](const PairedFiles& pair) -> TextCorpus::Read {
    return [pair, options](const corpus::RecordSink& sink) {
      corpus::TextFile first(pair.first);
      if (pair.second.empty()) {
        corpus::read_parallel(first, pair.columns, options, sink);
        return;
      }
      corpus::TextFile second(pair.second);
      corpus::read_parallel(first, second, options, sink);
    };
  };
  TextCorpus corpus = {.train = read(files.train),
                       .valid = read(files.valid),
                       .test = read(files.test),
                       .role = TextRole::translation};
  for (const auto* pair : {&files.train, &files.valid, &files.test})
    for (const auto& path : {pair->first, pair->second})
      if (!path.empty()) corpus.files.push_back(path);
  return corpus;
}

}  // namespace longbow
