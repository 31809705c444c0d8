#include "longbow/corpus/files/text_file.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "longbow/core/file.h"
#include "longbow/core/seed.h"
#include "longbow/core/utf8.h"
#include "tests/corpus/support.h"

namespace longbow::corpus {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(TextFile file) {
  Lines lines;
  for (std::string line; file.line(line);) lines.push_back(line);
  return lines;
}

Lines lines_of(const std::string& bytes, const TextOptions& options = {}) {
  return lines_of(TextFile::in_memory(bytes, "a.txt", options));
}

std::string refused(const std::string& bytes, const TextOptions& options = {}) {
  return mistake([&] { lines_of(bytes, options); });
}

// A stream of which every read gives what one call has put, and one that would have to wait fails.
class Stdin {
 public:
  Stdin() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends_), 0); }
  ~Stdin() {
    close(ends_[0]);
    close(ends_[1]);
  }
  Stdin(const Stdin&) = delete;
  Stdin& operator=(const Stdin&) = delete;

  int descriptor() const { return ends_[0]; }
  void put(std::string_view bytes) {
    EXPECT_EQ(write(ends_[1], bytes.data(), bytes.size()), std::ssize(bytes));
  }
  void put_each(std::string_view bytes) {
    for (size_t i = 0; i < bytes.size(); ++i) put(bytes.substr(i, 1));
    end();
  }
  void end() { EXPECT_EQ(shutdown(ends_[1], SHUT_WR), 0); }

 private:
  int ends_[2] = {-1, -1};
};

TEST(TextFile, GivesLinesWithoutTheirEnds) {
  EXPECT_EQ(lines_of("one\ntwo\r\n\nlast"), (Lines{"one", "two", "", "last"}));
  EXPECT_EQ(lines_of("one\n"), Lines{"one"});
  EXPECT_EQ(lines_of("\n\n"), (Lines{"", ""}));
  EXPECT_EQ(lines_of(""), Lines());
  EXPECT_EQ(lines_of("\r\n\r"), (Lines{"", "\r"})) << "a CR alone ends no line";
  EXPECT_EQ(lines_of("a\xe2\x80\xa8"
                     "b\x0b\x0c c\n"),
            Lines{"a\xe2\x80\xa8"
                  "b\x0b\x0c c"})
      << "nor do other separators";
}

TEST(TextFile, DropsAByteOrderMarkAtTheStartOnly) {
  EXPECT_EQ(lines_of("\xef\xbb\xbfone\n\xef\xbb\xbftwo"), (Lines{"one", "\xef\xbb\xbftwo"}));
  EXPECT_EQ(lines_of("\xef\xbb\xbf"), Lines());
}

TEST(TextFile, TellsHowALineEndedAndItsNumber) {
  auto file = TextFile::in_memory("a\r\nb\nc", "a.txt");
  std::string_view line;
  EXPECT_EQ(file.line_number(), 0);
  for (const auto* end : {"\r\n", "\n", ""}) {
    ASSERT_TRUE(file.line(line));
    EXPECT_EQ(file.line_end(), end);
  }
  EXPECT_FALSE(file.line(line));
  EXPECT_EQ(file.place().str(), "a.txt:3");
}

TEST(TextFile, ReadsTheSameLinesPlainAndPacked) {
  std::string text;
  Lines expected;
  for (uint64_t i = 0; i < 600; ++i) {
    auto stream = Stream(5, "lines").at(i);
    std::string line;
    for (int64_t n = stream.below(i % 40 == 0 ? 100000 : 300); n > 0; --n)
      append_utf8(line, stream.below(2) ? U'한' : U'a');
    text += line + (stream.below(2) ? "\n" : "\r\n");
    expected.push_back(line);
  }
  ASSERT_GT(text.size(), 1u << 20) << "several blocks";
  EXPECT_EQ(lines_of(text), expected);
  const Scratch scratch;
  const auto half = text.size() / 2;
  EXPECT_EQ(lines_of(TextFile(scratch.write("plain.gz", text))), expected) << "names do not count";
  EXPECT_EQ(lines_of(TextFile(scratch.write("a", gzipped(text)))), expected);
  EXPECT_EQ(lines_of(TextFile(scratch.write("b", xzipped(text)))), expected);
  EXPECT_EQ(lines_of(gzipped(text.substr(0, half)) + gzipped("") + gzipped(text.substr(half)) +
                     std::string(512, '\0')),
            expected);
  EXPECT_EQ(lines_of(xzipped(text.substr(0, half)) + xzipped(text.substr(half))), expected);
  std::string blocks;
  auto file = TextFile::in_memory(text, "a");
  for (auto block = file.block(); !block.empty(); block = file.block()) {
    ASSERT_EQ(find_invalid_utf8(block), std::string::npos) << "cut inside a character";
    blocks += block;
  }
  EXPECT_EQ(blocks, text);
}

TEST(TextFile, GivesALineAsSoonAsItIsWritten) {
  Stdin input;
  input.put("a\n");
  auto file = TextFile::of_descriptor(input.descriptor(), "stdin");
  std::string line;
  ASSERT_TRUE(file.line(line));
  EXPECT_EQ(line, "a");
  input.put("b\nc");
  ASSERT_TRUE(file.line(line));
  EXPECT_EQ(line, "b");
  input.end();
  ASSERT_TRUE(file.line(line));
  EXPECT_EQ(line, "c");
  EXPECT_FALSE(file.line(line));
  EXPECT_EQ(file.place().str(), "stdin:3");
  EXPECT_EQ(file.stored(), 5);
}

TEST(TextFile, ReadsWhatComesByteByByte) {
  const auto lines = [](const std::string& bytes) {
    Stdin input;
    input.put_each(bytes);
    return lines_of(TextFile::of_descriptor(input.descriptor(), "stdin"));
  };
  const std::string text = "\xef\xbb\xbf한\r\n\nBZ";
  const Lines expected = {"한", "", "BZ"};
  EXPECT_EQ(lines(text), expected);
  EXPECT_EQ(lines(gzipped(text)), expected);
  EXPECT_EQ(lines(xzipped(text)), expected);
  EXPECT_EQ(lines("B\n"), Lines{"B"}) << "nearly packed";
  EXPECT_EQ(lines("\xef\xbb\xbf"), Lines());
  EXPECT_EQ(mistake([&] { lines("\xff\xfe"); }),
            "stdin: is UTF-16; convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW");
  EXPECT_EQ(mistake([&] { lines("\xef\xbb"); }),
            "stdin:1: column 1: byte 0xef is not UTF-8; convert the file with iconv, or set "
            "malformed: replace");
}

TEST(TextFile, CountsTheBytesOnDisk) {
  const auto packed = gzipped(std::string(1000, 'x'));
  auto file = TextFile::in_memory(packed, "a");
  EXPECT_EQ(file.read_all().size(), 1000u);
  EXPECT_EQ(file.stored(), std::ssize(packed));
}

TEST(TextFile, ReadsAllOrRefuses) {
  EXPECT_EQ(TextFile::in_memory("\xef\xbb\xbf"
                                "a\r\nb",
                                "a")
                .read_all(),
            "a\r\nb");
  EXPECT_EQ(mistake([] { TextFile::in_memory("12345", "a.txt").read_all(4); }),
            "a.txt: holds more than 4 bytes of text");
}

TEST(TextFile, SumsTheBytesOnDisk) {
  const auto bytes = xzipped("one\ntwo\n");
  auto file = TextFile::in_memory(bytes, "a", {.checksum = true});
  std::string line;
  ASSERT_TRUE(file.line(line));
  EXPECT_EQ(file.sha256(), sha256(bytes)) << "also when the reader stopped early";
  auto twice = TextFile::in_memory("abc", "a", {.checksum = true});
  EXPECT_EQ(twice.read_all(), "abc");
  EXPECT_EQ(twice.sha256(), sha256("abc"));
  EXPECT_THROW(TextFile::in_memory("abc", "a").sha256(), std::logic_error);
}

TEST(TextFile, PeeksWithoutReading) {
  auto file = TextFile::in_memory("one\ntwo", "a");
  EXPECT_EQ(file.peek(), "one\ntwo");
  std::string line;
  ASSERT_TRUE(file.line(line));
  EXPECT_EQ(file.peek(), "two");
}

TEST(TextFile, RefusesBrokenPackedFiles) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += std::to_string(i * i) + "\n";
  const auto gz = gzipped(text), xz = xzipped(text);
  for (const size_t kept : {size_t{7}, gz.size() / 2, gz.size() - 9, gz.size() - 1})
    EXPECT_EQ(refused(gz.substr(0, kept)),
              "a.txt: the gzip data is cut off; copy or download the file again")
        << kept;
  for (const size_t kept : {size_t{6}, xz.size() / 2, xz.size() - 1})
    EXPECT_EQ(refused(xz.substr(0, kept)),
              "a.txt: the xz data is cut off; copy or download the file again")
        << kept;
  auto broken = gz;
  broken[gz.size() / 2] ^= 0x55;
  EXPECT_EQ(refused(broken), "a.txt: the gzip data is corrupt; copy or download the file again");
  broken = xz;
  broken[xz.size() / 2] ^= 0x55;
  EXPECT_EQ(refused(broken), "a.txt: the xz data is corrupt; copy or download the file again");
  EXPECT_EQ(refused(gz + "more"),
            "a.txt: other bytes follow the gzip data; copy or download the file again");
  EXPECT_EQ(refused(gz + std::string(3, '\0') + gz),
            "a.txt: other bytes follow the gzip data; copy or download the file again");
  EXPECT_EQ(refused(xz + "more than a header"),
            "a.txt: the xz data is corrupt; copy or download the file again");
}

TEST(TextFile, BoundsTheMemoryOfUnpacking) {
  // A valid stream whose header asks for a dictionary of 1 GiB.
  lzma_options_lzma options;
  lzma_lzma_preset(&options, 0);
  options.dict_size = 1u << 30;
  options.mf = LZMA_MF_HC3;
  uint8_t header[64], block[256];
  lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, nullptr}};
  lzma_stream_flags flags = {};
  flags.check = LZMA_CHECK_NONE;
  ASSERT_EQ(lzma_stream_header_encode(&flags, header), LZMA_OK);
  lzma_block part = {};
  part.filters = filters;
  part.compressed_size = part.uncompressed_size = LZMA_VLI_UNKNOWN;
  ASSERT_EQ(lzma_block_header_size(&part), LZMA_OK);
  ASSERT_EQ(lzma_block_header_encode(&part, block), LZMA_OK);
  const std::string bytes = std::string(reinterpret_cast<char*>(header), LZMA_STREAM_HEADER_SIZE) +
                            std::string(reinterpret_cast<char*>(block), part.header_size) + "\1";
  EXPECT_EQ(refused(bytes),
            "a.txt: unpacking the xz data needs more than 256 MiB of memory; pack the file again, "
            "for example with xz -9");
}

TEST(TextFile, NamesOtherKindsOfPackedFiles) {
  EXPECT_EQ(refused("\x28\xb5\x2f\xfd...."),
            "a.txt: is a zstd file; unpack it; plain, gzip and xz files are read");
  EXPECT_EQ(refused("BZh91AY"),
            "a.txt: is a bzip2 file; unpack it; plain, gzip and xz files are read");
  EXPECT_EQ(refused("PK\x03\x04..."),
            "a.txt: is a zip file; unpack it; plain, gzip and xz files are read");
  EXPECT_EQ(refused("7z\xbc\xaf\x27\x1c."),
            "a.txt: is a 7-Zip file; unpack it; plain, gzip and xz files are read");
}

TEST(TextFile, NamesLineAndColumnOfWhatIsNotText) {
  const auto* hint = "; convert the file with iconv, or set malformed: replace";
  EXPECT_EQ(refused("a\n한b\xff"
                    "c\n"),
            std::string("a.txt:2: column 3: byte 0xff is not UTF-8") + hint);
  EXPECT_EQ(refused("caf\xe9\n"), std::string("a.txt:1: column 4: byte 0xe9 is not UTF-8") + hint);
  EXPECT_EQ(refused("a\xf0\x9f\x98"),
            std::string("a.txt:1: column 2: byte 0xf0 is not UTF-8") + hint)
      << "cut by the end of the file";
  const std::string many(600000, 'x');
  EXPECT_EQ(refused("one\ntwo\n" + many + "\xc0"),
            std::string("a.txt:3: column 600001: byte 0xc0 is not UTF-8") + hint);
  const auto bytes = "é\n" + many + "\xc0";
  auto file = TextFile::in_memory(bytes, "a.txt");
  EXPECT_EQ(mistake([&] { file.read_all(); }),
            std::string("a.txt:2: column 600001: byte 0xc0 is not UTF-8") + hint);
  EXPECT_EQ(refused(std::string("ab\0c", 4)),
            "a.txt:1: column 3 is a NUL byte; a text file has none; is this a binary file, or "
            "UTF-16?");
  EXPECT_EQ(refused(std::string("a\xff\n\0c", 5), {.malformed = Malformed::replace}),
            "a.txt:2: column 1 is a NUL byte; a text file has none; is this a binary file, or "
            "UTF-16?");
  for (const auto& wide : {std::string("\xff\xfe"
                                       "a\0",
                                       4),
                           std::string("\xfe\xff\0a", 4)})
    EXPECT_EQ(refused(wide),
              "a.txt: is UTF-16; convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW");
}

TEST(TextFile, ReplacesMalformedBytesOnRequest) {
  const TextOptions replace = {.malformed = Malformed::replace};
  EXPECT_EQ(lines_of("a\xff\xe2\x82z\n한\xf0\x9f", replace), (Lines{"a��z", "한�"}));
  std::string bytes, expected;
  for (int i = 0; i < 300000; ++i) {
    bytes += i % 3 ? "한" : "\xc0";
    expected += i % 3 ? "한" : "�";
  }
  EXPECT_EQ(lines_of(bytes, replace), Lines{expected});
}

TEST(TextFile, HoldsAFewBlocksWhateverIsReplaced) {
  std::string bytes;
  while (bytes.size() < 8u << 20) bytes += "\xff\n";
  auto file = TextFile::in_memory(bytes, "a.txt", {.malformed = Malformed::replace});
  size_t count = 0, most = 0;
  for (std::string_view line; file.line(line); ++count) most = std::max(most, file.peek().size());
  EXPECT_EQ(count, bytes.size() / 2);
  EXPECT_LT(most, 2u << 20);
}

TEST(TextFile, HintsNameOptionsThatAConfigHas) {
  EXPECT_EQ(refused("caf\xe9\n", {.is_in_config = false}),
            "a.txt:1: column 4: byte 0xe9 is not UTF-8; convert the file with iconv");
  EXPECT_EQ(refused("123456\n", {.max_line = 5, .is_in_config = false}),
            "a.txt:1: the line is longer than 5 bytes; is this a text file?");
}

TEST(TextFile, BoundsTheLengthOfALine) {
  EXPECT_EQ(lines_of("12345\n", {.max_line = 5}), Lines{"12345"});
  EXPECT_EQ(
      refused("1\n123456\n", {.max_line = 5}),
      "a.txt:2: the line is longer than 5 bytes; is this a text file? max_line sets the limit");
  EXPECT_EQ(
      refused(gzipped(std::string(3 << 20, 'x')), {.max_line = 1 << 20}),
      "a.txt:1: the line is longer than 1048576 bytes; is this a text file? max_line sets the "
      "limit");
}

TEST(TextFile, NamesFilesThatCannotBeRead) {
  const Scratch scratch;
  const auto opened = [&](const std::string& name) {
    return scratch.mistake([&] { lines_of(TextFile(scratch.path(name))); });
  };
  EXPECT_EQ(opened("nowhere"), "nowhere: cannot be read; No such file or directory");
  std::filesystem::create_directory(scratch.path("folder"));
  EXPECT_EQ(opened("folder"), "folder: cannot be read; Is a directory");
}

TEST(TextFile, NamesAFileThatMayNotBeRead) {
  const Scratch scratch;
  const auto path = scratch.write("a", "x");
  std::filesystem::permissions(path, std::filesystem::perms::none);
  constexpr uid_t kNobody = 65534;
  const bool is_root = geteuid() == 0;
  if (is_root) {  // root may read anything
    ASSERT_EQ(seteuid(kNobody), 0);
  }
  const auto message = scratch.mistake([&] { TextFile{path}; });
  if (is_root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  EXPECT_EQ(message, "a: cannot be read; Permission denied");
}

TEST(TextFile, IsReadOrRefusedInOneLineWhateverTheBytes) {
  const std::string packed[] = {gzipped("one\r\ntwo 한\n\nthree"), xzipped("one\ntwo")};
  for (uint64_t i = 0; i < 3000; ++i) {
    auto stream = Stream(3, "bytes").at(i);
    auto bytes = packed[i % 2];
    for (int64_t n = stream.below(3); n >= 0; --n)
      bytes[static_cast<size_t>(stream.below(std::ssize(bytes)))] ^=
          static_cast<char>(1 << stream.below(8));
    const auto message = refused(bytes);
    ASSERT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace longbow::corpus
