#include "longbow/data/sets/pathfinder/folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "longbow/core/error.h"
#include "longbow/core/file.h"
#include "longbow/core/file_error.h"
#include "longbow/core/file_name.h"
#include "longbow/core/folder.h"
#include "longbow/core/log.h"
#include "longbow/core/on_all_cores.h"
#include "longbow/corpus/files/png.h"

namespace longbow::pathfinder {
namespace {

namespace fs = std::filesystem;

std::string in(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / name).string();
}

// The number that a name is before its ending; -1 where it is none.
int64_t number_of(const fs::path& file) {
  const auto stem = file.stem().string();
  int64_t number = -1;
  const auto [end, error] = std::from_chars(stem.data(), stem.data() + stem.size(), number);
  return error == std::errc{} && end == stem.data() + stem.size() ? number : -1;
}

std::vector<std::string> metadata_files(const std::string& root, const std::string& folder) {
  const auto place = in(root, folder + "/metadata");
  std::vector<int64_t> numbers;
  std::error_code failure;
  for (const auto& file : fs::directory_iterator(place, failure)) {
    const auto number = number_of(file.path());
    if (file.path().extension() != ".npy" || number < 0)
      throw UserError(Place{file.path().string(), 0}, "is not a metadata file",
                      "they are called 0.npy, 1.npy, …");
    numbers.push_back(number);
  }
  if (numbers.empty())
    throw UserError(Place{place, 0}, "no metadata files",
                    "`longbow data list pathfinder` tells what belongs into data.path");
  std::ranges::sort(numbers);
  std::vector<std::string> files;
  for (const auto number : numbers)
    files.push_back(fmt::format("{}/metadata/{}.npy", folder, number));
  return files;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (size_t from; (from = line.find_first_not_of(" \t\r")) != line.npos;) {
    line.remove_prefix(from);
    words.push_back(line.substr(0, line.find_first_of(" \t\r")));
    line.remove_prefix(words.back().size());
  }
  return words;
}

bool is_image_folder(std::string_view name) {
  return name.starts_with("imgs/") && is_file_name(name.substr(5));
}

// Of a number as Python prints it.
std::string text_of(double number) {
  return number == static_cast<int>(number) ? fmt::format("{:.1f}", number)
                                            : fmt::format("{}", number);
}

// Not synced to disk one by one: what tells that all are there is written last.
void write_plain(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  file.close();
  if (!file) fail_at(path, "cannot be written", errno);
}

}  // namespace

std::string folder_name(int64_t size, Level level) {
  return fmt::format("pathfinder{}/{}", size,
                     level == Level::easy
                         ? "curv_baseline"
                         : fmt::format("curv_contour_length_{}", contour_length(level)));
}

std::vector<Entry> parse_metadata(const std::string& text, const std::string& file,
                                  const std::string& folder) {
  if (text.starts_with("\x93NUMPY"))
    throw UserError(Place{file, 0}, "is an array of NumPy",
                    "the Arena's files are text, in spite of their names");
  std::vector<Entry> entries;
  int line = 0;
  for (size_t from = 0; from < text.size();) {
    const auto end = std::min(text.find('\n', from), text.size());
    const auto words = words_of(std::string_view(text).substr(from, end - from));
    const Place place = {file, ++line};
    from = end + 1;
    if (words.empty()) continue;
    if (words.size() < 4)
      throw UserError(place, fmt::format("{} fields, expected at least 4", words.size()),
                      "folder, file, number and label of a picture");
    if (!is_image_folder(words[0]) || !is_file_name(words[1]))
      throw UserError(place,
                      fmt::format("{} is no picture of the data",
                                  quote(fmt::format("{} {}", words[0], words[1]))),
                      "they are in imgs/<batch>");
    if (words[3] != "0" && words[3] != "1")
      throw UserError(place, fmt::format("label {} is not 0 or 1", quote(std::string(words[3]))));
    entries.push_back({fmt::format("{}/{}/{}", folder, words[0], words[1]), words[3] == "1"});
  }
  return entries;
}

Folder find_folder(const std::string& path, int64_t size, Level level) {
  const auto name = folder_name(size, level);
  if (!fs::is_directory(path))
    throw UserError(Place{path, 0}, "no such folder", "it should hold " + name);
  std::vector<std::string> roots;
  for (const auto* inside : {"lra_release/lra_release", "lra_release", ""}) {
    const auto root = fs::path(path) / inside;
    if (fs::is_directory(root / name)) roots.push_back(root.lexically_normal().string());
  }
  if (roots.empty())
    throw UserError(Place{in(path, name), 0}, "no such folder",
                    "`longbow data list pathfinder` tells what belongs into data.path");
  if (roots.size() > 1)
    info(fmt::format("pathfinder: {} has {} copies of {}; that in {} is read", path, roots.size(),
                     name, roots[0]));
  Folder folder = {.root = roots[0], .metadata = metadata_files(roots[0], name)};
  for (const auto& file : folder.metadata) {
    const auto full = in(folder.root, file);
    for (auto& entry : parse_metadata(read_file(full), full, name)) {
      std::error_code missing;
      const auto bytes = fs::file_size(in(folder.root, entry.path), missing);
      if (missing)
        throw UserError(Place{in(folder.root, entry.path), 0}, "no such file", full + " lists it");
      if (bytes == 0)
        ++folder.empty;
      else
        folder.entries.push_back(std::move(entry));
    }
  }
  return folder;
}

std::string checksums_of(const Folder& folder) {
  auto paths = folder.metadata;
  for (const auto& entry : folder.entries) paths.push_back(entry.path);
  std::vector<std::string> sums(paths.size());
  on_all_cores(std::ssize(paths), [&](int64_t number) {
    const auto i = static_cast<size_t>(number);
    sums[i] = sha256(read_file(in(folder.root, paths[i])));
  });
  std::string lines;
  for (size_t i = 0; i < paths.size(); ++i) lines += sums[i] + "  " + paths[i] + "\n";
  return lines;
}

std::vector<uint8_t> read_picture(const Folder& folder, const Entry& entry, int64_t size) {
  const auto file = in(folder.root, entry.path);
  auto image = corpus::parse_png(read_file(file), file);
  if (image.height != size || image.width != size)
    throw UserError(Place{file, 0}, fmt::format("is {} x {} pixels, expected {} x {}", image.height,
                                                image.width, size, size));
  return std::move(image.pixels);
}

void write_batch(const std::string& root, const Kind& kind, Level level, int64_t batch,
                 const std::vector<Picture>& pictures) {
  const auto folder = in(root, folder_name(kind.size, level)),
             images = fmt::format("imgs/{}", batch);
  make_folder(in(folder, images));
  make_folder(in(folder, "metadata"));
  std::string lines;
  for (size_t i = 0; i < pictures.size(); ++i)
    lines +=
        fmt::format("{} sample_{}.png {} {} {} {} {} {} {} {} 1\n", images, i, i, pictures[i].label,
                    text_of(kind.continuity), kind.contour_length, kind.distractor_length,
                    kind.length, text_of(kind.thickness), pictures[i].margin);
  on_all_cores(std::ssize(pictures), [&](int64_t i) {
    write_plain(in(folder, fmt::format("{}/sample_{}.png", images, i)),
                corpus::to_png({kind.size, kind.size, pictures[static_cast<size_t>(i)].pixels}));
  });
  write_plain(in(folder, fmt::format("metadata/{}.npy", batch)), lines);
}

std::string contact_sheet(const std::vector<Picture>& pictures, int size) {
  constexpr int kGap = 2, kMiddle = 6, kHalf = kSheetColumns / 2;
  const int width = kSheetColumns * (size + kGap) + kGap + kMiddle,
            height = kSheetRows * (size + kGap) + kGap;
  corpus::GreyImage sheet = {.height = height, .width = width, .pixels = {}};
  sheet.pixels.assign(static_cast<size_t>(height * width), 255);
  std::array<int, 2> placed = {};
  for (const auto& picture : pictures) {
    const int number = placed[static_cast<size_t>(picture.label)]++;
    if (number >= kSheetRows * kHalf) continue;
    const int top = kGap + number / kHalf * (size + kGap),
              left = kGap + number % kHalf * (size + kGap) +
                     picture.label * (kHalf * (size + kGap) + kMiddle);
    for (int y = 0; y < size; ++y)
      std::copy_n(&picture.pixels[static_cast<size_t>(y * size)], size,
                  &sheet.pixels[static_cast<size_t>((top + y) * width + left)]);
  }
  return corpus::to_png(sheet);
}

}  // namespace longbow::pathfinder
