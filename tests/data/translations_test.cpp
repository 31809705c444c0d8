#include "longbow/data/encoding/translations.h"

#include <gtest/gtest.h>

#include "tests/data/folder.h"

namespace longbow {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

Pairs pairs_of(const TextCorpus::Read& read) {
  Pairs pairs;
  read(
      [&](corpus::Record&& record) { pairs.emplace_back(record.texts.at(0), record.texts.at(1)); });
  return pairs;
}

TEST(Translations, AreTwoFilesOrATable) {
  const Folder folder;
  folder.write("a.en", "one\ntwo\n");
  folder.write("a.de", "eins\nzwei\n");
  folder.write("b.csv", "de,en\ndrei,three\n");
  const auto lines = paired_files("x", folder.str(), {"missing", "a"}, "en", "de");
  const PairedFiles table = {.first = folder.file("b.csv"),
                             .columns = {.text = "en", .second = "de"}};
  const auto corpus = translation_corpus({lines, table, table}, {.swap = true});
  EXPECT_EQ(corpus.role, TextRole::translation);
  EXPECT_EQ(pairs_of(corpus.train), (Pairs{{"eins", "one"}, {"zwei", "two"}}));
  EXPECT_EQ(pairs_of(corpus.valid), (Pairs{{"drei", "three"}}));
  EXPECT_EQ(corpus.files, (std::vector<std::string>{folder.file("a.en"), folder.file("a.de"),
                                                    folder.file("b.csv"), folder.file("b.csv")}));
}

TEST(Translations, NeedBothFilesOfAName) {
  const Folder folder;
  folder.write("b.de", "eins\n");
  const auto refused = [&](const std::vector<std::string>& names) {
    return error_of([&] { paired_files("x", folder.str(), names, "en", "de"); }, folder.str());
  };
  EXPECT_EQ(refused({"a", "b"}),
            "b.en: no such file; `longbow data list x` tells which files belong into data.path");
  EXPECT_EQ(refused({"a", "c"}),
            "a.en: no such file, nor c.en; `longbow data list x` tells which files belong into "
            "data.path");
}

}  // namespace
}  // namespace longbow
