#pragma once
// manifest.json: what `data make` wrote, so that what is read later can be compared with it.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "longbow/core/fields.h"
#include "longbow/data/samples/dataset.h"

namespace longbow {

// A hint.
inline constexpr auto kCutOrChanged =
    "the file was cut or changed; make it again with `longbow data make`";

struct ManifestFile {
  std::string name;
  int64_t bytes = 0;
  std::string sha256;
  int64_t samples = 0;
};
template <class V>
void fields(V& v, ManifestFile& c) {
  v("name", c.name, "file name, beside the manifest");
  v("bytes", c.bytes, "size", at_least(0));
  v("sha256", c.sha256, "checksum, 64 hex digits");
  v("samples", c.samples, "rows without the header", at_least(1));
}

struct Manifest {
  std::string name = {};
  uint64_t seed = 0;
  int64_t version = 0;
  Node config = {};
  std::vector<ManifestFile> files = {};
  Node labels = {}, lengths = {};
};
template <class V>
void fields(V& v, Manifest& c) {
  v("name", c.name, "data set");
  v("seed", c.seed, "seed of the generator");
  v("version", c.version, "version of the generator");
  v("config", c.config, "options of the generator");
  v("files", c.files, "files of the data set");
  v("labels", c.labels, "targets of each class, over all files");
  v("lengths", c.lengths, "samples up to each length, by steps of 64, over all files");
}

// UserError where it lists anything but files beside it.
Manifest parse_manifest(const std::string& text, const std::string& path);
std::optional<Manifest> find_manifest(const std::string& dir);  // nothing when the folder has none

struct SplitFiles {
  std::string train, valid, test;
};

// A folder or a file that is missing is a UserError that names what was expected where.
void check_present(const std::string& dir, const SplitFiles& files);
// The manifest of a folder with these files; where there is none, `use` says what it is needed for.
Manifest needed_manifest(const std::string& dir, const SplitFiles& files, const std::string& use);

struct WriteSplits {
  std::string dir;
  SplitFiles files;
  Splits splits;
  std::function<std::string(const Dataset&)> table;  // a split as the contents of its file
  Manifest manifest;                                 // files and histograms are filled in
};
void write_splits(WriteSplits request);

struct ReadSplits {
  std::string dir;
  SplitFiles files;
  std::function<std::shared_ptr<const Dataset>(const std::string& contents,
                                               const std::string& path)>
      parse;
  std::optional<Manifest> manifest = {};  // then sample counts and checksums must match it
};
void read_splits(const ReadSplits& request, Splits& splits);

// Counts the labels and lengths of all samples.
void set_histograms(Manifest& manifest, const Splits& splits);
// Presence, size and checksum of a file; says what was found.
std::string check_file(const std::string& dir, const ManifestFile& file);
// Presence, size and checksum of every file, every label recomputed where samples tell it, both
// histograms. One line per
// finding; the first failure is a UserError.
std::vector<std::string> verify(const std::string& dir);

}  // namespace longbow
