#include "longbow/cli/failure.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "longbow/core/config.h"
#include "longbow/core/error.h"
#include "longbow/core/file.h"
#include "longbow/core/file_error.h"
#include "longbow/core/interruption.h"
#include "longbow/core/log.h"
#include "longbow/core/memory.h"
#include "longbow/core/utf8.h"

namespace longbow::cli {
namespace {

std::string first_line(std::string_view text) {
  constexpr size_t kLongest = 1000;
  return one_line(text.substr(0, text.find('\n')), kLongest);
}

Failure no_memory(const std::string& why) {
  return {.text = fmt::format("not enough memory: {}, {} are available", why,
                              human_bytes(available_memory())),
          .out_of_memory = true};
}

Failure of_torch(const c10::Error& error) {
  const std::string_view text = error.what_without_backtrace();
  const bool overflow = text.find("Storage size calculation overflowed") != text.npos;
  if (overflow || text.find("DefaultCPUAllocator: ") != text.npos)
    return no_memory(overflow ? "a tensor has more numbers than 64 bits can count"
                              : "a tensor does not fit");
  return {.text = first_line(text),
          .out_of_memory = dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr};
}

// As fail_at would say it.
Failure of_files(const std::filesystem::filesystem_error& error) {
  try {
    fail_at(error.path1().string(), "cannot be used", error.code().value());
  } catch (...) {
    return failure_of(std::current_exception());
  }
}

Failure of_system(const std::system_error& error) {
  if (std::ferror(stdout) != 0)
    return {.text = "stdout: cannot be written; " + error.code().message()};
  return {.text = first_line(error.what())};
}

}  // namespace

Failure failure_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const UserError& error) {
    return {.text = error.what(), .code = 2};
  } catch (const Interrupted& interrupted) {
    return {.text = interrupted.what(), .code = 128 + interrupted.signal};
  } catch (const c10::Error& error) {
    return of_torch(error);
  } catch (const std::filesystem::filesystem_error& error) {
    return of_files(error);
  } catch (const std::system_error& error) {
    return of_system(error);
  } catch (const std::bad_alloc&) {
    return no_memory("a list does not fit");
  } catch (const std::length_error&) {
    return no_memory("a list has more entries than can be counted");
  } catch (const std::exception& error) {
    return {.text = first_line(error.what())};
  }
}

void write_failure(const Failure& failure, const std::string& file) {
  write_file(file, to_json(Node::map({{"reason", Node::string(failure.text)},
                                      {"out_of_memory", Node::boolean(failure.out_of_memory)}})) +
                       "\n");
}

std::optional<Failure> read_failure(const std::string& file) {
  if (!std::filesystem::exists(file)) return {};
  const auto node = parse_json(read_file(file), file);
  const auto *reason = node.find("reason"), *memory = node.find("out_of_memory");
  if (!reason || !memory) return {};
  return Failure{.text = as_string(*reason, "reason"),
                 .out_of_memory = as_boolean(*memory, "out_of_memory")};
}

void flush_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw std::system_error(errno, std::generic_category());
}

}  // namespace longbow::cli
