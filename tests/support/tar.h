#pragma once
#include <fmt/format.h>

#include <string>

namespace longbow {

// As `tar --format=ustar` writes a member.
inline std::string tar_member(const std::string& name, const std::string& bytes, char type = '0',
                              const std::string& prefix = "") {
  std::string header(512, '\0');
  const auto put = [&](size_t at, const std::string& text) {
    header.replace(at, text.size(), text);
  };
  put(0, name);
  put(124, fmt::format("{:011o}", bytes.size()));
  put(148, "        ");
  header[156] = type;
  put(257, std::string("ustar\0", 6) + "00");
  put(345, prefix);
  size_t sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  put(148, fmt::format("{:06o}", sum) + '\0');
  auto all = header + bytes;
  all.resize((all.size() + 511) / 512 * 512);
  return all;
}

}  // namespace longbow
