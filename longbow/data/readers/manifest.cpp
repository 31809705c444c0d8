#include "longbow/data/readers/manifest.h"

#include <fmt/format.h>

#include <filesystem>

#include "longbow/core/file.h"
#include "longbow/core/file_name.h"
#include "longbow/core/folder.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLengthStep = 64;

std::string path_in(const std::string& dir, const std::string& name) {
  return (fs::path(dir) / name).string();
}

Node counts_node(const std::map<int64_t, int64_t>& counts) {
  auto node = Node::map();
  for (auto [key, count] : counts) node[std::to_string(key)] = Node::integer(count);
  return node;
}

ManifestFile describe_file(const std::string& name, const std::string& contents, int64_t samples) {
  return {.name = name,
          .bytes = static_cast<int64_t>(contents.size()),
          .sha256 = sha256(contents),
          .samples = samples};
}

const ManifestFile& file_in(const Manifest& manifest, const std::string& dir,
                            const std::string& name) {
  for (const auto& file : manifest.files)
    if (file.name == name) return file;
  throw UserError(Place{path_in(dir, "manifest.json")}, fmt::format("does not list {}", name));
}

void check_against(const ManifestFile& expected, const ManifestFile& found,
                   const std::string& path) {
  if (found.samples != expected.samples)
    throw UserError(
        {path},
        fmt::format("{} samples, but manifest.json says {}", found.samples, expected.samples),
        kCutOrChanged);
  if (found.sha256 != expected.sha256)
    throw UserError(Place{path}, "its sha256 is not the one in manifest.json", kCutOrChanged);
}

}  // namespace

void set_histograms(Manifest& manifest, const Splits& splits) {
  std::map<int64_t, int64_t> labels, lengths;
  for (const auto* split : {splits.train.get(), splits.valid.get(), splits.test.get()})
    for (int64_t i = 0; i < split->size(); ++i) {
      for (auto target : split->get(i).targets)
        if (target != kIgnore) ++labels[target];
      ++lengths[(split->length(i) + kLengthStep - 1) / kLengthStep * kLengthStep];
    }
  manifest.labels = counts_node(labels);
  manifest.lengths = counts_node(lengths);
}

// Before anything is parsed: a wrong size is the clearest sign of a file that was cut.
std::string check_file(const std::string& dir, const ManifestFile& file) {
  auto path = path_in(dir, file.name);
  if (!fs::is_regular_file(path))
    throw UserError(Place{path}, "no such file",
                    fmt::format("manifest.json lists it with {} samples", file.samples));
  auto bytes = static_cast<int64_t>(fs::file_size(path));
  if (bytes != file.bytes)
    throw UserError(Place{path},
                    fmt::format("{} bytes, but manifest.json says {}", bytes, file.bytes),
                    kCutOrChanged);
  if (sha256_of_file(path) != file.sha256)
    throw UserError(Place{path}, "its sha256 is not the one in manifest.json", kCutOrChanged);
  return fmt::format("{}: {} samples, {} bytes, sha256 {}", file.name, file.samples, file.bytes,
                     file.sha256);
}

Manifest parse_manifest(const std::string& text, const std::string& path) {
  auto manifest = read<Manifest>(parse_json(text, path));
  for (const auto& file : manifest.files)
    if (!is_file_name(file.name))
      throw UserError(Place{path}, fmt::format("lists {}", quote(file.name)),
                      "it must be a file name beside the manifest");
  return manifest;
}

std::optional<Manifest> find_manifest(const std::string& dir) {
  auto path = path_in(dir, "manifest.json");
  if (!fs::exists(path)) return std::nullopt;
  return parse_manifest(read_file(path), path);
}

void check_present(const std::string& dir, const SplitFiles& files) {
  auto all = fmt::format("{}, {} and {}", files.train, files.valid, files.test);
  if (!fs::is_directory(dir))
    throw UserError(Place{dir}, "no such folder", "it should hold " + all);
  for (const auto& name : {files.train, files.valid, files.test})
    if (!fs::is_regular_file(path_in(dir, name)))
      throw UserError(Place{path_in(dir, name)}, "no such file", "the folder should hold " + all);
}

Manifest needed_manifest(const std::string& dir, const SplitFiles& files, const std::string& use) {
  check_present(dir, files);
  if (auto manifest = find_manifest(dir)) return *std::move(manifest);
  throw UserError(Place{dir + "/manifest.json"}, "no such file", use);
}

void write_splits(WriteSplits request) {
  make_folder(request.dir);
  const auto& [train, valid, test] = request.files;
  auto& manifest = request.manifest;
  auto write = [&](const std::string& name, const Dataset& dataset) {
    auto contents = request.table(dataset);
    write_file(path_in(request.dir, name), contents);
    manifest.files.push_back(describe_file(name, contents, dataset.size()));
  };
  write(train, *request.splits.train);
  write(valid, *request.splits.valid);
  write(test, *request.splits.test);
  set_histograms(manifest, request.splits);
  write_file(path_in(request.dir, "manifest.json"), to_json(written(manifest), 2) + "\n");
}

void read_splits(const ReadSplits& request, Splits& splits) {
  check_present(request.dir, request.files);
  auto load = [&](const std::string& name) {
    auto path = path_in(request.dir, name);
    auto contents = read_file(path);
    auto dataset = request.parse(contents, path);
    auto found = describe_file(name, contents, dataset->size());
    splits.checksums[name] = found.sha256;
    if (request.manifest) check_against(file_in(*request.manifest, request.dir, name), found, path);
    return dataset;
  };
  auto train = load(request.files.train), valid = load(request.files.valid),
       test = load(request.files.test);
  set_splits(splits, std::move(train), std::move(valid), std::move(test));
}

}  // namespace longbow
