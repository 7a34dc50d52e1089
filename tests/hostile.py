"""Text that means something to a shell, a compiler, Python, HTML, a terminal or a database.

Whatever takes a text from a user is tried with each of them.
"""

from __future__ import annotations

import itertools

_CODE = [
    'a"; system("touch pwned"); //',
    "a'); __import__('os').system('touch pwned'); ('",
    "*/ int main(void) { return system(0); } /*",
    "/* ", "*/", "//", "// \\", "/\\\n/", "#", "##", "\\", "\\\\", "\\\n", "\\\r\n", "a\\",
    "??/", "??/\n", "a??/", "??=include <stdio.h>", "??'", "<:", "%:", "%:include <a.h>",
    "#include <stdlib.h>", "\n#include </etc/passwd>\n", '#include "/dev/random"',
    "\n#define int x",
    "#pragma omp parallel", '_Pragma("once")', '__asm__("nop")', "asm volatile(\"hlt\")",
    "__attribute__((constructor))", "__attribute__((section(\".text\")))", "[[noreturn]]",
    "__import__", "__class__", "lambda: 0", "exec", "eval('1')", "globals()", "{0.__class__}",
    "$(touch pwned)", "${IFS}", "$HOME", "`touch pwned`", "; touch pwned", "| touch pwned",
    "&& touch pwned", "> pwned", "< /etc/passwd", "-o pwned", "--output=pwned", "-", "--", "@file",
    "-fplugin=pwned.so", "-wrapper touch,pwned", "kernel.c", "/dev/null", "../../pwned", "~",
    "%s", "%n", "%n%n%n%n", "%1000000d", "{}", "{0}", "{name!r:>1000000000}", "%(name)s", "\\x41",
    "\\u0041", "\\N{BULLET}", "&lt;", "<script>alert(1)</script>", "]]>", "'; DROP TABLE t; --",
    "[red]x[/red]", "[/]", "\x1b[31mred", "\x1b]0;title\x07", "\x9b31m", "\r", "\rmain", "\b\b\b",
    ");", "}", "{", "};", "]", "[", ")", "(", ",", ";", ":", "?", "=", "==", "+", "++", "->", ".",
    "...", "'", '"', "'''", '"""', "`", "!", "@", "^", "~~", "|", "&", "\t", " ", "  ", "\n", "\v",
    "\f", "\x00", "a\x00b", "\x01", "\x7f", "\x85", "\xa0", "\xad", "\ufeff", "\u200b", "\u2028",
    "\u2029", "\u202e", "\u202eabc", "\u2066a\u2069", "\ud800", "\udfff", "a\udc80b", "\U0001f600",
    "\U000e0041", "é", "e\u0301", "ﬁ", "ａ", "ς", "İ", "ı", "日本", "и", "аbc", "𝒾", "ª", "¼", "²",
]  # fmt: skip

_WORDS = [
    *("auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else"),
    *("enum", "extern", "float", "for", "goto", "if", "inline", "int", "long", "register"),
    *("restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef"),
    *("union", "unsigned", "void", "volatile", "while", "_Bool", "_Complex", "_Atomic", "_Generic"),
    *("_Alignas", "_Alignof", "_Noreturn", "_Static_assert", "_Thread_local", "_Float16"),
    *("asm", "__asm__", "typeof", "__typeof__", "__builtin_trap", "__builtin_unreachable"),
    *("__attribute__", "__extension__", "__label__", "__func__", "__FILE__", "__LINE__"),
    *("__COUNTER__", "__GNUC__", "__STDC__", "__x86_64__", "__INT_MAX__", "__has_include"),
    *("linux", "unix", "i386", "NULL", "EOF", "errno", "INT_MAX", "SIZE_MAX", "UINT8_MAX"),
    *("INFINITY", "NAN", "HUGE_VAL", "M_PI", "I", "true", "false", "bool", "nullptr", "_"),
    *("__", "_A", "__a", "main", "system", "printf", "exit", "abort", "malloc", "free", "memcpy"),
    *("strlen", "setjmp", "longjmp", "alloca", "sin", "expf", "fmaf", "lgamma", "y0", "j1"),
    *("size_t", "ptrdiff_t", "uint8_t", "int64_t", "uintptr_t", "max_align_t", "wchar_t"),
    *("omp_get_thread_num", "omp_in_parallel", "defined", "include", "define", "pragma", "error"),
    *("workspace", "status", "r", "restrict2", "kernel", "main_kernel", "intrinsic_a_12345678"),
    *("load_f32x8", "store_float32x8", "splat_", "f32x8", "floordiv_i64", "min_float32", "exp_f"),
    *("and", "or", "not", "xor", "compl", "class", "new", "this", "template", "operator"),
    *("None", "True", "False", "is", "in", "def", "lambda", "import", "self", "print", "root"),
    *("i", "A", "C", "i_0", "A_2", "A2", "vi", "nan", "inf", "e5", "0x", "L", "u8"),
    *("0", "1", "42", "007", "1e5", "0x10", "1a", "-1", "9" * 30, "1_000", "٣", "½"),
]

_LONG = [
    *("x" * 48, "x" * 49, "x" * 5000, "9" * 5000, "é" * 5000, "\n" * 5000, "\\" * 4999),
    *("a b " * 1000, '"' * 5000, "(" * 5000, "[" * 5000, "%s" * 2500, "_" * 5000, "??/" * 1000),
    "*/" * 2500,
]  # fmt: skip

_WRAPPED = [
    f"{before}{inside}{after}"
    for (before, after), inside in itertools.product(
        [('"', '"'), ("'", "'"), ("\n", "\n"), ("a\\\n", "b"), ("*/", "/*"), ("\n#", "\n")],
        ["system(0);", "define A B", "include <a.h>", "if 0", "error pwned", "}", "a = 1;"],
    )
]

HOSTILE: list[str] = list(dict.fromkeys(["", *_CODE, *_WORDS, *_LONG, *_WRAPPED]))
"""Each once, always in the same order."""

ENORMOUS = "x" * 10_000_000
"""Ten million characters: longer than any name may be."""
