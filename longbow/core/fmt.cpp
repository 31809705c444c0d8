// The compiled half of fmt, whose headers LibTorch brings without a library.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template FMT_API auto dragonbox::to_decimal(float x) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double x) noexcept -> dragonbox::decimal_fp<double>;
template FMT_API auto thousands_sep_impl(locale_ref where) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref where) -> char;

}  // namespace detail
FMT_END_NAMESPACE
