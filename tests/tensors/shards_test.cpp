#include "longbow/tensors/shards.h"

#include <ATen/ATen.h>

#include <filesystem>
#include <fstream>

#include "longbow/core/error.h"
#include "longbow/core/file.h"
#include "longbow/tensors/safetensors.h"
#include "tests/data/mutation.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

const std::string kIndex = R"({
  "metadata": {"total_size": 48},
  "weight_map": {
    "a.weight": "one.safetensors",
    "b.bias": "two.safetensors",
    "c.bias": "one.safetensors"
  }
}
)";

// Two files and an index, in an empty folder of the running test's own.
class Shards : public testing::Test {
 protected:
  Shards() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder = fs::path(testing::TempDir()) / "longbow_shards" / test->name();
    fs::remove_all(folder);
    fs::create_directories(folder);
    save_safetensors(folder / "one.safetensors",
                     {{"a.weight", at::arange(6.0).view({2, 3})}, {"c.bias", at::ones({2})}});
    save_safetensors(folder / "two.safetensors", {{"b.bias", at::full({4}, 3, at::kInt)}});
    index = (folder / "model.safetensors.index.json").string();
    write_file(index, kIndex);
  }
  // What is said with `from` in the index made `to`.
  std::string error(const std::string& from = "", const std::string& to = "") const {
    auto text = kIndex;
    if (!from.empty()) text.replace(text.find(from), from.size(), to);
    write_file(index, text);
    return error_of([&] { load_shards(index); });
  }
  fs::path folder;
  std::string index;
};

TEST_F(Shards, AreOneSetOfTensors) {
  const auto tensors = load_shards(index);
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_NEAR_TENSOR(tensors.at("a.weight"), at::arange(6.0).view({2, 3}), kExact);
  EXPECT_NEAR_TENSOR(tensors.at("c.bias"), at::ones({2}), kExact);
  EXPECT_EQ(tensors.at("b.bias").scalar_type(), at::kInt);
}

TEST_F(Shards, AnIndexMustMapTensorsToFilesBesideIt) {
  const std::string none =
      ": weight_map is missing, empty or not a map of tensors to files; not an index of "
      "safetensors "
      "files";
  EXPECT_EQ(error("weight_map", "weights"), index + ":1" + none);
  write_file(index, R"({"weight_map": {}})");
  EXPECT_EQ(error_of([&] { load_shards(index); }), index + ":1" + none);
  write_file(index, R"({"weight_map": ["one.safetensors"]})");
  EXPECT_EQ(error_of([&] { load_shards(index); }), index + ":1" + none);
  EXPECT_EQ(error("\"two.safetensors\"", "2"),
            index + ":5: the file of tensor 'b.bias' is not a string");
  EXPECT_EQ(error("\"two.safetensors\"", "null"),
            index + ":5: the file of tensor 'b.bias' is not a string");
  EXPECT_EQ(error("\"two.safetensors\"", "[\"two.safetensors\"]"),
            index + ":5: the file of tensor 'b.bias' is not a string");
  for (const std::string name : {"../two.safetensors", "/etc/passwd", "x/two.safetensors", "..",
                                 ".", "", "x\\\\two.safetensors", "two\\u0000.safetensors"}) {
    const auto said = error("two.safetensors", name);
    EXPECT_TRUE(said.starts_with(index + ":5: the file of tensor 'b.bias' is ")) << said;
    EXPECT_TRUE(said.ends_with("; it must be a file name beside the index")) << said;
    EXPECT_EQ(said.find('\n'), std::string::npos);
  }
  EXPECT_NE(error("c.bias", "b.bias").find("b.bias"), std::string::npos) << "named twice";
  EXPECT_TRUE(error("c.bias", "b.bias").starts_with(index + ":6: "));
}

TEST_F(Shards, IndexAndFilesMustHoldTheSameTensors) {
  EXPECT_EQ(error("b.bias", "b.weight"),
            (folder / "two.safetensors").string() + ": tensor 'b.bias' is not in the index");
  EXPECT_EQ(error("\"b.bias\": \"two.safetensors\"", "\"b.bias\": \"one.safetensors\""),
            index + ":5: tensor 'b.bias' is not in 'one.safetensors'");
  EXPECT_EQ(error("\"a.weight\": \"one", "\"a.weight\": \"two"),
            index +
                ":4: tensor 'a.weight' is in 'two.safetensors' by the index, but "
                "'one.safetensors' holds it");
  save_safetensors(folder / "two.safetensors",
                   {{"b.bias", at::zeros({4})}, {"a.weight", at::zeros({2, 3})}});
  EXPECT_EQ(error(), index +
                         ":4: tensor 'a.weight' is in 'one.safetensors' by the index, but "
                         "'two.safetensors' holds it");
  fs::remove(folder / "two.safetensors");
  EXPECT_EQ(error(), index + ":5: 'two.safetensors' is missing; fetch all files of the model");
  fs::create_directories(folder / "two.safetensors");
  EXPECT_EQ(error(), index + ":5: 'two.safetensors' is missing; fetch all files of the model");
}

TEST_F(Shards, AreWrittenAsFullAsTheyMayBe) {
  const std::map<std::string, at::Tensor> tensors = {{"a", at::ones({4})},
                                                     {"b", at::full({2}, 2.0)},
                                                     {"c", at::full({20}, 3.0)},
                                                     {"d", at::full({1}, 4, at::kLong)}};
  save_shards(folder, tensors, 24);  // a and b fill one, c is larger
  EXPECT_EQ(read_file(index), R"({
  "metadata": {
    "total_size": 112
  },
  "weight_map": {
    "a": "model-00001-of-00003.safetensors",
    "b": "model-00001-of-00003.safetensors",
    "c": "model-00002-of-00003.safetensors",
    "d": "model-00003-of-00003.safetensors"
  }
}
)");
  const auto again = load_shards(index);
  ASSERT_EQ(again.size(), 4u);
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(at::equal(again.at(name), tensor)) << name;
}

TEST_F(Shards, EveryAccidentIsReadOrRefusedInOneLine) {
  int64_t read = 0, refused = 0;
  const auto try_it = [&](const fs::path& file, const std::string& text) {
    std::ofstream(file, std::ios::binary) << text;
    try {
      load_shards(index);
      ++read;
    } catch (const UserError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      ++refused;
    }
  };
  const Stream stream(5, "shards");
  for (const auto& file : {fs::path(index), folder / "one.safetensors"}) {
    const auto whole = read_file(file);
    for (int64_t i = 0; i < 400; ++i) try_it(file, mutated(whole, stream.at(i)));
    write_file(file, whole);
  }
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 400);
}

}  // namespace
}  // namespace longbow
