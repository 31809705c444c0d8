#pragma once
// Folders as the Long Range Arena publishes them:
//   pathfinder32/curv_contour_length_14/imgs/<batch>/sample_<i>.png    8-bit grey
//   pathfinder32/curv_contour_length_14/metadata/<batch>.npy           text, a line for each
//   picture
#include <cstdint>
#include <string>
#include <vector>

#include "longbow/data/sets/pathfinder/kind.h"
#include "longbow/data/sets/pathfinder/picture.h"

namespace longbow::pathfinder {

// "pathfinder32/curv_contour_length_14"
std::string folder_name(int64_t size, Level level);

struct Entry {
  std::string path;  // of the picture, from the data's folder on
  int label = 0;
};

struct Folder {
  std::string root = {};                   // that in which pathfinder32/… is
  std::vector<std::string> metadata = {};  // paths from there on, in the order of their numbers
  std::vector<Entry> entries = {};         // of all metadata, without pictures that are empty files
  int64_t empty = 0;                       // of those
};

// `path` may be any folder of the archive that holds pathfinder32, or one above it. Where there are
// two copies, the inner one counts, as everybody else reads it. UserError for what is missing or
// not as above.
Folder find_folder(const std::string& path, int64_t size, Level level);

// The lines of a metadata file. UserError with its line where it is none.
std::vector<Entry> parse_metadata(const std::string& text, const std::string& file,
                                  const std::string& folder);

// What `sha256sum` prints for all metadata and pictures.
std::string checksums_of(const Folder& folder);

// Pixels of a picture, which must have this size.
std::vector<uint8_t> read_picture(const Folder& folder, const Entry& entry, int64_t size);

// Writes pictures number first, first + 1, … with their metadata: whole batches of kBatch, but for
// the last call.
constexpr int64_t kBatch = 1000;
void write_batch(const std::string& root, const Kind& kind, Level level, int64_t batch,
                 const std::vector<Picture>& pictures);

// Some pictures side by side: those of label 0 on the left, of label 1 on the right.
constexpr int kSheetRows = 8, kSheetColumns = 8;
std::string contact_sheet(const std::vector<Picture>& pictures, int size);  // a PNG file

}  // namespace longbow::pathfinder
