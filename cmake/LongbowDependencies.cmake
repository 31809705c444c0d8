# Small libraries, each private to the .cpp files that use it.
find_package(Threads REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(LibLZMA REQUIRED)
foreach(library utf8proc pcre2-8)
  string(REGEX REPLACE "-.*" "" header ${library})
  find_path(longbow_${header}_include ${header}.h REQUIRED)
  find_library(longbow_${header}_library ${library} REQUIRED)
endforeach()

# What the parsers use: YAML and JSON, Unicode and regular expressions, packed files.
add_library(longbow_parsers INTERFACE)
target_include_directories(longbow_parsers INTERFACE ${longbow_utf8proc_include} ${longbow_pcre2_include})
target_link_libraries(longbow_parsers INTERFACE yaml-cpp nlohmann_json::nlohmann_json ${longbow_utf8proc_library}
  ${longbow_pcre2_library} ZLIB::ZLIB LibLZMA::LibLZMA)

# Optional: without it, images that are JPEG files are refused.
find_package(JPEG)
if(JPEG_FOUND)
  target_link_libraries(longbow_parsers INTERFACE JPEG::JPEG)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/longbow/data/readers/jpeg.cpp PROPERTIES
    COMPILE_DEFINITIONS LONGBOW_JPEG INCLUDE_DIRECTORIES "${JPEG_INCLUDE_DIRS}")
endif()

# LibTorch ships the headers of a fmt: the one that every file sees. longbow/core/fmt.cpp compiles it, since its
# header-only form would be compiled again in every file. The link keeps LibTorch's other headers out of sight.
set(fmt_include ${PROJECT_BINARY_DIR}/generated/fmt)
file(MAKE_DIRECTORY ${fmt_include})
file(CREATE_LINK ${longbow_torch_dir}/include/fmt ${fmt_include}/fmt SYMBOLIC)
add_library(longbow_fmt INTERFACE)
target_include_directories(longbow_fmt SYSTEM INTERFACE ${fmt_include})

if(LONGBOW_TESTS)
  find_package(GTest REQUIRED)
endif()
