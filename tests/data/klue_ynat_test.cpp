#include <gtest/gtest.h>

#include "tests/data/published.h"

namespace longbow {
namespace {

using Counts = std::map<std::string, int64_t>;

// In the publisher's form, with fields that are not read.
std::string titles(int count, const std::string& label) {
  std::string text = "[";
  for (int i = 0; i < count; ++i)
    text += std::string(i ? ",\n" : "\n") + R"({"guid": "g", "title": "제목 )" + std::to_string(i) +
            R"(", "predefined_news_category": "x", "label": ")" + label +
            R"(", "annotations": {"annotators": ["1"]}})";
  return text + "\n]\n";
}

TEST(KlueYnat, HoldsOutAPartOfTheTrainingFileAndTestsOnDev) {
  const Folder folder;
  folder.write("ynat-v1.1_train.json", titles(400, "경제"));
  folder.write("ynat-v1.1_dev.json", titles(7, "사회"));
  const auto splits = load_published({.set = "klue_ynat", .path = folder.str()});
  EXPECT_EQ(splits.labels, (std::vector<std::string>{"IT과학", "경제", "사회", "생활문화", "세계",
                                                     "스포츠", "정치"}));
  EXPECT_EQ(splits.classes, 7);
  EXPECT_EQ(splits.train->size() + splits.valid->size(), 400);
  EXPECT_GT(splits.valid->size(), 5);
  EXPECT_LT(splits.valid->size(), 45);
  EXPECT_EQ(classes_in(splits, *splits.train), (Counts{{"경제", splits.train->size()}}));
  EXPECT_EQ(classes_in(splits, *splits.test), (Counts{{"사회", 7}}));
  EXPECT_EQ(text_of(splits.test->get(3).tokens), "제목 3");
}

TEST(KlueYnat, TakesThePackedNamesToo) {
  const Folder folder;
  folder.write("ynat_train.json", titles(100, "정치"));
  folder.write("ynat_dev.json", titles(2, "정치"));
  EXPECT_EQ(load_published({.set = "klue_ynat", .path = folder.str()}).test->size(), 2);
}

TEST(KlueYnat, SaysWhatIsMissingOrWrong) {
  const Folder folder;
  EXPECT_EQ(refusal(folder, "klue_ynat"),
            "ynat-v1.1_train.json: no such file, nor ynat_train.json; `longbow data list "
            "klue_ynat` tells which files belong into data.path");
  folder.write("ynat-v1.1_train.json", titles(3, "날씨"));
  EXPECT_EQ(refusal(folder, "klue_ynat"),
            "ynat-v1.1_dev.json: no such file, nor ynat_dev.json; `longbow data list klue_ynat` "
            "tells which files belong into data.path");
  folder.write("ynat-v1.1_dev.json", titles(3, "경제"));
  EXPECT_EQ(refusal(folder, "klue_ynat"),
            "ynat-v1.1_train.json:2: label '날씨' is not in classes; one of: IT과학, 경제, 사회, "
            "생활문화, 세계, 스포츠, 정치");
}

TEST(KlueYnat, HasThePublishedTitles) {
  const auto path = collected("klue_ynat");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto splits = load_published({.set = "klue_ynat", .path = path.string()});
  EXPECT_EQ(classes_in(splits, *splits.train) + classes_in(splits, *splits.valid),
            (Counts{{"세계", 8200},
                    {"스포츠", 7636},
                    {"정치", 7263},
                    {"경제", 6013},
                    {"생활문화", 5658},
                    {"IT과학", 5146},
                    {"사회", 5015}}));
  EXPECT_NEAR(static_cast<double>(splits.valid->size()) / 44931, 0.05, 0.005);
  EXPECT_EQ(classes_in(splits, *splits.test), (Counts{{"사회", 3701},
                                                      {"생활문화", 1369},
                                                      {"경제", 1348},
                                                      {"세계", 835},
                                                      {"정치", 722},
                                                      {"스포츠", 578},
                                                      {"IT과학", 554}}));
}

}  // namespace
}  // namespace longbow
