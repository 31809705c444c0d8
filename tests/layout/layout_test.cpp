#include "tests/layout/layout.h"

#include <gtest/gtest.h>

namespace longbow::layout {
namespace {

using Check = Violations (*)(const Tree&);

const Tree& repository() {
  static const Tree tree = read_tree(LONGBOW_SOURCE_DIR);
  return tree;
}

void expect_none(const Violations& found) {
  for (const auto& violation : found) ADD_FAILURE() << violation;
}

TEST(Layout, IncludesFollowTheLayers) {
  expect_none(includes_against_the_layers(repository()));
}
TEST(Layout, IncludesFollowTheRooms) {
  expect_none(includes_against_the_rooms(repository()));
}
TEST(Layout, SourcesOfALayerDoNotIncludeEachOtherInACircle) {
  expect_none(circular_includes(repository()));
}
TEST(Layout, NobodyIncludesAWideTorchHeader) {
  expect_none(wide_torch_headers(repository()));
}
TEST(Layout, EveryMechanismDataSetAndObjectiveHasATestAndAPage) {
  expect_none(rows_without_test_or_page(repository()));
}
TEST(Layout, RowsOfATableDoNotKnowEachOther) {
  expect_none(rows_that_share_files(repository()));
}
TEST(Layout, EveryTestHasItsSource) {
  expect_none(tests_without_source(repository()));
}
TEST(Layout, FilesAreShort) {
  expect_none(long_files(repository()));
}
TEST(Layout, NoComparisonIsIgnored) {
  expect_none(ignored_comparisons(repository()));
}
TEST(Layout, EveryTodoNamesItsIssue) {
  expect_none(todos_without_issue(repository()));
}
TEST(Layout, FoldersAreNamedAfterWhatTheyHold) {
  expect_none(nameless_folders(repository()));
}
TEST(Layout, NoPathOfOneMachine) {
  expect_none(machine_paths(repository()));
}
TEST(Layout, ParallelLoopsAreNotOurOwn) {
  expect_none(parallel_pragmas(repository()));
}

const char* const kLayers =
    "longbow_layer(core)\nlongbow_layer(kernels)\nlongbow_layer(ops USES kernels TORCH)\n"
    "longbow_layer(nn USES ops TORCH)\nlongbow_layer(attention USES nn TORCH)\n"
    "longbow_layer(train USES nn ROOMS step run TORCH)\n";

struct Planted {
  const char* name;
  Check check;
  std::string path, contents;
  std::string violation;  // empty: this must pass
};

std::ostream& operator<<(std::ostream& stream, const Planted& planted) {
  return stream << planted.name;
}

class Violation : public testing::TestWithParam<Planted> {};

TEST_P(Violation, IsFound) {
  const auto& planted = GetParam();
  Tree tree = {
      {"CMakeLists.txt", kLayers}, {"longbow/nn/mask.h", ""}, {"tests/nn/mask_test.cpp", ""}};
  ASSERT_EQ(planted.check(tree), Violations());
  tree[planted.path] = planted.contents;
  const auto expected = planted.violation.empty() ? Violations() : Violations{planted.violation};
  EXPECT_EQ(planted.check(tree), expected);
}

const Planted kPlanted[] = {
    {"UpwardInclude", includes_against_the_layers, "longbow/ops/a.cpp",
     "\n#include \"longbow/nn/mask.h\"\n",
     "longbow/ops/a.cpp:2: layer ops may not include longbow/nn/mask.h"},
    {"UpwardIncludeOfATest", includes_against_the_layers, "tests/ops/a_test.cpp",
     "#  include <longbow/nn/mask.h>",
     "tests/ops/a_test.cpp:1: layer ops may not include longbow/nn/mask.h"},
    {"TransitiveInclude", includes_against_the_layers, "longbow/attention/a.cpp",
     "#include \"longbow/kernels/k.h\"\n#include \"longbow/core/error.h\"\n", ""},
    {"LayerNobodyListed", includes_against_the_layers, "longbow/extra/a.cpp", "",
     "longbow/extra/a.cpp: no longbow_layer(extra) in CMakeLists.txt"},
    {"NoLayers", includes_against_the_layers, "CMakeLists.txt", "project(longbow)",
     "CMakeLists.txt: no longbow_layer(...) call"},
    {"RoomAbove", includes_against_the_rooms, "longbow/train/step/a.cpp",
     "#include \"longbow/train/step/b.h\"\n#include \"longbow/train/run/c.h\"\n",
     "longbow/train/step/a.cpp:2: room step may not include longbow/train/run/c.h"},
    {"RoomBelow", includes_against_the_rooms, "longbow/train/run/a.cpp",
     "#include \"longbow/train/step/b.h\"\n", ""},
    {"NoRoom", includes_against_the_rooms, "longbow/train/a.cpp", "",
     "longbow/train/a.cpp: is in no room of train; CMakeLists.txt lists them"},
    {"WideHeader", wide_torch_headers, "longbow/nn/a.h", "#include <torch/torch.h>",
     "longbow/nn/a.h:1: torch/torch.h costs 15 s a file; include the narrow headers"},
    {"ExtensionHeader", wide_torch_headers, "tests/nn/a_test.cpp", "#include \"torch/extension.h\"",
     "tests/nn/a_test.cpp:1: torch/extension.h costs 15 s a file; include the narrow headers"},
    {"MechanismIncludesAnother", rows_that_share_files, "longbow/attention/a.cpp",
     "#include \"longbow/attention/mechanism.h\"\n#include \"longbow/attention/b.cpp\"",
     "longbow/attention/a.cpp:2: a mechanism may not include longbow/attention/b.cpp; what two "
     "share belongs in nn"},
    {"MechanismHeader", rows_that_share_files, "longbow/attention/a.h", "",
     "longbow/attention/a.h: the header of a mechanism belongs in its own folder, or in nn"},
    {"PartOfAnotherMechanism", rows_that_share_files, "longbow/attention/a.cpp",
     "#include \"longbow/attention/a/part.h\"\n#include \"longbow/attention/b/part.h\"",
     "longbow/attention/a.cpp:2: a mechanism may not include longbow/attention/b/part.h; what two "
     "share belongs in nn"},
    {"DataSetIncludesAnother", rows_that_share_files, "longbow/data/sets/a.cpp",
     "#include \"longbow/data/sets/a.h\"\n#include \"longbow/data/sets/b.h\"",
     "longbow/data/sets/a.cpp:2: a data set may not include longbow/data/sets/b.h; what two share "
     "belongs in data/readers"},
    {"PartOfNoMechanism", rows_that_share_files, "longbow/attention/ghost/part.h", "",
     "longbow/attention/ghost/part.h: there is no mechanism ghost"},
    {"TestWithoutSource", tests_without_source, "tests/nn/ghost_test.cpp", "",
     "tests/nn/ghost_test.cpp: tests longbow/nn/ghost, which does not exist"},
    {"TestOfSeveralSources", tests_without_source, "tests/attention/laws_test.cpp", "", ""},
    {"LongFile", long_files, "longbow/nn/a.cpp", std::string(501, '\n'),
     "longbow/nn/a.cpp: 501 lines, at most 500"},
    {"LongKernel", long_files, "longbow/kernels/cuda/a.cu", std::string(601, '\n'),
     "longbow/kernels/cuda/a.cu: 601 lines, at most 600"},
    {"LongReadme", long_files, "README.md", std::string(151, '\n'),
     "README.md: 151 lines, at most 150"},
    {"KernelOfSixHundredLines", long_files, "longbow/kernels/cpu/a.cpp", std::string(600, '\n'),
     ""},
    {"IgnoredComparison", ignored_comparisons, "tests/nn/a_test.cpp",
     "auto x = f();\n\n  torch::allclose(x, y);",
     "tests/nn/a_test.cpp:3: the result of allclose is ignored"},
    {"IgnoredComparisonAfterABrace", ignored_comparisons, "tests/nn/a_test.cpp",
     "{\n  at::allclose(x, y);", "tests/nn/a_test.cpp:2: the result of allclose is ignored"},
    {"UsedComparison", ignored_comparisons, "tests/nn/a_test.cpp",
     "EXPECT_TRUE(\n    torch::allclose(x, y));", ""},
    {"Todo", todos_without_issue, "longbow/nn/a.cpp", "// TODO: later",
     "longbow/nn/a.cpp:1: TODO without #number of its issue"},
    {"TodoWithIssue", todos_without_issue, "longbow/nn/a.cpp", "// TODO(#12): later", ""},
    {"Utils", nameless_folders, "longbow/nn/utils/a.h", "",
     "longbow/nn/utils: a folder is named after what it holds"},
    {"MachinePath", machine_paths, "configs/a.yaml", "data: /home/somebody/lra",
     "configs/a.yaml:1: a path of one machine: /home/"},
    {"RelativePath", machine_paths, "configs/a.yaml", "data: runs/work/lra, ~/home/x", ""},
    {"OpenMp", parallel_pragmas, "longbow/kernels/cpu/a.cpp", "#pragma omp parallel for",
     "longbow/kernels/cpu/a.cpp:1: parallel loops are in_parallel, never OpenMP of our own"},
    {"ParallelFor", parallel_pragmas, "longbow/ops/a.cpp", "  at::parallel_for(0, n, 1, body);",
     "longbow/ops/a.cpp:1: at::parallel_for is serial without OpenMP; use in_parallel"},
};

INSTANTIATE_TEST_SUITE_P(Layout, Violation, testing::ValuesIn(kPlanted),
                         [](const auto& planted) { return planted.param.name; });

TEST(LayoutCheck, EveryRowNeedsATestAndAPage) {
  Tree tree = {{"longbow/attention/mechanism.cpp", ""},
               {"longbow/attention/a.cpp", ""},
               {"longbow/attention/a/part.cpp", ""},
               {"longbow/data/sets/b.cpp", ""},
               {"longbow/tasks/objectives/c.cpp", ""}};
  EXPECT_EQ(rows_without_test_or_page(tree),
            (Violations{"longbow/attention/a.cpp: needs tests/attention/a_test.cpp",
                        "longbow/attention/a.cpp: needs docs/mechanisms/a.md",
                        "longbow/data/sets/b.cpp: needs tests/data/b_test.cpp",
                        "longbow/data/sets/b.cpp: needs docs/data/b.md",
                        "longbow/tasks/objectives/c.cpp: needs tests/tasks/c_test.cpp",
                        "longbow/tasks/objectives/c.cpp: needs docs/objectives/c.md"}));
  for (const auto* path :
       {"tests/attention/a_test.cpp", "docs/mechanisms/a.md", "tests/data/b_test.cpp",
        "docs/data/b.md", "tests/tasks/c_test.cpp", "docs/objectives/c.md"})
    tree[path] = "";
  EXPECT_EQ(rows_without_test_or_page(tree), Violations());
}

TEST(LayoutCheck, AHeaderAndItsSourceAreOneNodeOfACircle) {
  Tree tree = {{"longbow/nn/a.h", "#include \"longbow/nn/b.h\"\n"},
               {"longbow/nn/a.cpp", "#include \"longbow/nn/a.h\"\n"},
               {"longbow/nn/b.h", "#include \"longbow/ops/c.h\"\n"},
               {"longbow/nn/c.cpp", "#include \"longbow/nn/a.h\"\n"}};
  EXPECT_EQ(circular_includes(tree), Violations());
  tree["longbow/nn/b.cpp"] = "#include \"longbow/nn/b.h\"\n#include \"longbow/nn/a.h\"\n";
  EXPECT_EQ(
      circular_includes(tree),
      Violations{"longbow/nn/a -> longbow/nn/b -> longbow/nn/a: these include each other in a "
                 "circle"});
}

TEST(LayoutCheck, ATestMayBelongToASourceInAFolderOfItsLayer) {
  Tree tree = {{"CMakeLists.txt", kLayers}, {"tests/kernels/product_test.cpp", ""}};
  EXPECT_EQ(tests_without_source(tree).size(), 1u);
  tree["longbow/kernels/cuda/product.cu"] = "";
  EXPECT_EQ(tests_without_source(tree), Violations());
}

TEST(LayoutCheck, ReadsTheLayersWithWhatTheyUseBelow) {
  const auto layers = read_layers({{"CMakeLists.txt", kLayers}});
  EXPECT_EQ(layers.at("core"), (std::set<std::string>{"core"}));
  EXPECT_EQ(layers.at("nn"), (std::set<std::string>{"core", "kernels", "nn", "ops"}));
}

TEST(LayoutCheck, TheRepositoryIsReadWithoutItsIgnoredFolders) {
  EXPECT_TRUE(repository().count("CMakeLists.txt"));
  for (const auto& [path, contents] : repository()) {
    EXPECT_NE(path.substr(0, 6), "build/");
    EXPECT_NE(path.substr(0, 5), ".git/");
  }
}

}  // namespace
}  // namespace longbow::layout
