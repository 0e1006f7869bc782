# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

# SIDESTEP_TRY_CFLAG(VARIABLE, FLAG): append FLAG to VARIABLE when the
# compiler takes it without a complaint.
AC_DEFUN([SIDESTEP_TRY_CFLAG], [
  AC_CACHE_CHECK([whether $CC takes $2], [AS_TR_SH([sidestep_cv_flag_$2])], [
    sidestep_saved="$CFLAGS"
    CFLAGS="$CFLAGS -Werror $2"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
      [AS_TR_SH([sidestep_cv_flag_$2])=yes], [AS_TR_SH([sidestep_cv_flag_$2])=no])
    CFLAGS="$sidestep_saved"])
  AS_IF([test "x$AS_TR_SH([sidestep_cv_flag_$2])" = xyes], [$1="$$1 $2"])
])

# SIDESTEP_WARNINGS: WARN_CFLAGS is the probed warning list.
AC_DEFUN([SIDESTEP_WARNINGS], [
  WARN_CFLAGS=
  m4_foreach_w([flag], [-Wall -Wextra -Wshadow -Wpointer-arith
    -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wvla
    -Wundef -Wwrite-strings -Wcast-align -Wformat=2 -Wimplicit-fallthrough
    -Wlogical-op -Wduplicated-cond -Wduplicated-branches -Wnull-dereference
    -Wno-unused-parameter -Wno-missing-field-initializers],
    [SIDESTEP_TRY_CFLAG([WARN_CFLAGS], flag)])
  AS_IF([test "x$enable_werror" = xyes], [WARN_CFLAGS="$WARN_CFLAGS -Werror"])
  AC_SUBST([WARN_CFLAGS])
])

# SIDESTEP_SANITIZE: SAN_CFLAGS from --enable-sanitize.
AC_DEFUN([SIDESTEP_SANITIZE], [
  SAN_CFLAGS=
  AS_CASE([${enable_sanitize:-no}],
    [no], [],
    [yes], [SAN_CFLAGS="-fsanitize=address,undefined"],
    [SAN_CFLAGS="-fsanitize=$enable_sanitize"])
  AS_IF([test -n "$SAN_CFLAGS"], [
    SAN_CFLAGS="$SAN_CFLAGS -fno-omit-frame-pointer -fno-sanitize-recover=undefined"
    sidestep_saved="$CFLAGS"
    CFLAGS="$CFLAGS $SAN_CFLAGS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [],
      [AC_MSG_ERROR([the compiler cannot build with $SAN_CFLAGS])])
    CFLAGS="$sidestep_saved"])
  AC_SUBST([SAN_CFLAGS])
  AM_CONDITIONAL([SANITIZED], [test -n "$SAN_CFLAGS"])
])
