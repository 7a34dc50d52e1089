"""Spills in fixed excerpts of assembly, as compilers write it for several machines."""

import pytest

from minitensor.runtime.spills import Spills, find_spills, understood

GCC_AVX512 = """\
	.file	"kernel.c"
# options passed: -march=native -O2
	.text
mm_kernel:
	.file 1 "kernel.c"
	.loc 1 2 5
	.cfi_startproc
	pushq	%rbp	#
	movq	%rsp, %rbp	#,
	andq	$-64, %rsp	#,
	subq	$264, %rsp	#,
	vmovdqa	%xmm0, (%rsp)	# tmp90, MEM <vector(2) long> [&.omp_data_o.1]
	vxorps	%xmm6, %xmm6, %xmm6	# C_15
	vmovaps	%zmm6, 64(%rsp)	# C_15, %sfp
	.loc 1 4 20
	xorl	%eax, %eax	# k
.L4:
	.loc 1 5 17
	vmovaps	64(%rsp), %zmm5	# %sfp, C_15
	vbroadcastss	(%rdi,%rax,4), %zmm4	# A, tmp245
	vfmadd231ps	%zmm4, %zmm3, %zmm5	# tmp245, B, C_15
	vmovaps	%zmm5, 64(%rsp)	# C_15, %sfp
	.loc 1 6 17
	vfmadd213ps	128(%rsp), %zmm0, %zmm4	# %sfp, B, tmp245
	vmovaps	%zmm4, 128(%rsp)	# tmp245, %sfp
	vmovaps	%zmm4, 192(%rsp)	# tmp245, MEM[(float *)&T]
	vmovss	12(%rsp), %xmm1	# %sfp, x
	.loc 1 4 9
	addq	$1, %rax	#, k
	cmpq	$64, %rax	#, k
	jne	.L4	#,
	.loc 1 7 9
	vmovaps	64(%rsp), %zmm5	# %sfp, C_15
	vmovaps	%zmm5, (%rdx)	# C_15, C
	leave
	ret
	.cfi_endproc
"""
SOURCE = """\
int mm_kernel(float *A) {
    for (int64_t i = 0; i < 8; ++i) {
        float32x16 C_15 = splat(0.0f);
        for (int64_t k = 0; k < 64; ++k) {
            C_15 += splat(A[k]) * b;
            C_14 += splat(A[k]) * c;
        }
        C[i] = C_15;
    }
}
"""

CLANG_AVX2 = """\
tile:                                   # @tile
	.cfi_startproc
	subq	$104, %rsp
	vmovups	%ymm0, -32(%rsp)                # 32-byte Spill
	xorl	%eax, %eax
.LBB0_1:                                # %loop
	vmovups	-32(%rsp), %ymm2                # 32-byte Reload
	vfmadd231ps	%ymm1, %ymm0, %ymm2     # ymm2 = (ymm0 * ymm1) + ymm2
	vmovups	%ymm2, -32(%rsp)                # 32-byte Spill
	vmovups	%ymm3, 64(%rsp)
	vmovups	(%rbp,%rax), %ymm4
	incq	%rax
	cmpq	%rax, %rdx
	jne	.LBB0_1
	retq
	.cfi_endproc
	.ident	"Debian clang version 14.0.6"
"""

PLAIN_SSE = """\
f:
	subq	$72, %rsp
.L2:
	movaps	%xmm5, 16(%rsp)
	addps	16(%rsp), %xmm1
	movss	%xmm1, 8(%rsp)
	vmovaps	%xmm2, (%rsp)
	movups	(%rbp), %xmm3
	subl	$1, %eax
	jne	.L2
	ret
"""

CLANG_AARCH64 = """\
tile:                                   // @tile
	.cfi_startproc
	sub	sp, sp, #352
	stp	d15, d14, [sp, #272]            // 16-byte Folded Spill
	str	x29, [sp, #336]                 // 8-byte Folded Spill
	str	q0, [sp, #144]                  // 16-byte Folded Spill
	stp	q2, q1, [sp, #208]              // 32-byte Folded Spill
.LBB0_1:                                // %loop
	ldr	q19, [sp, #144]                 // 16-byte Folded Reload
	ldp	s1, s4, [x8, #-20]
	fmla	v18.4s, v0.4s, v30.s[0]
	ldp	q9, q11, [sp, #48]              // 32-byte Folded Reload
	ld1r	{ v20.4s }, [x9], #4
	str	q21, [sp, #128]                 // 16-byte Folded Spill
	add	x8, x8, #136
	b.ne	.LBB0_1
	ret
	.cfi_endproc
"""

GCC_AARCH64 = """\
	.arch armv8-a
// options passed: -O2
f:
	stp	x29, x30, [sp, -272]!	//,,,
	mov	x29, sp	//,
.L2:
	ldr	q0, [x29, 32]	// tmp, %sfp
	fmla	v0.4s, v1.4s, v2.4s	// tmp
	str	q0, [sp, 48]	// tmp, %sfp
	str	q3, [sp, 64]	// tmp, MEM[&T]
	cbnz	x0, .L2	// n,
	ret
	.size	f, .-f
"""

OUTER = """\
f:
.L2:
	movaps	%xmm5, 16(%rsp)
.L3:
	movaps	32(%rsp), %xmm1
	call	expf
	jne	.L3
	movaps	48(%rsp), %xmm1
	jmp	.L2
	ret
"""


def test_gcc_avx512_marks_its_spills_and_the_loop_is_found():
    inner, *outer = find_spills(GCC_AVX512, SOURCE)
    assert inner == Spills("k", True, loads=2, stores=2, bits=512)
    assert sum(s.loads for s in outer) == 1 and sum(s.stores for s in outer) == 1
    assert inner.moves == 4


def test_clang_avx2():
    assert find_spills(CLANG_AVX2) == (
        Spills("", True, loads=1, stores=1, bits=256),
        Spills("", False, loads=0, stores=1, bits=256),
    )


def test_plain_sse_counts_every_vector_move_to_the_stack():
    """rbp is no frame here: it was not set to rsp."""
    assert find_spills(PLAIN_SSE) == (Spills("", True, loads=1, stores=2, bits=128),)


def test_a_frame_pointer_counts_where_there_is_one():
    framed = PLAIN_SSE.replace("	subq", "	movq	%rsp, %rbp\n	subq")
    assert find_spills(framed)[0].loads == 2


def test_clang_aarch64():
    """A pair is two vectors; registers that the caller keeps (d8 … d15) are no spills."""
    assert find_spills(CLANG_AARCH64) == (
        Spills("", True, loads=3, stores=1, bits=128),
        Spills("", False, loads=0, stores=3, bits=128),
    )


def test_gcc_aarch64():
    assert find_spills(GCC_AARCH64) == (Spills("", True, loads=1, stores=1, bits=128),)


def test_only_loops_without_another_inside_are_innermost():
    inner, outer = find_spills(OUTER)
    assert (inner.innermost, inner.loads, inner.stores, inner.calls) == (True, 1, 0, 1)
    assert (outer.innermost, outer.loads, outer.stores, outer.calls) == (False, 1, 1, 0)


def test_masked_stores():
    stored, loaded = "%zmm1, 64(%rsp){%k1}", "64(%rsp), %zmm1{%k1}{z}"
    text = f"f:\n.L2:\n\tvmovups\t{stored}\n\tvmovups\t{loaded}\n\tjne\t.L2\n"
    assert find_spills(text) == (Spills("", True, loads=1, stores=1, bits=512),)


@pytest.mark.parametrize("text", ["", "\n", "garbage\n\t\n#", "\t.loc\n\tjne\n.L1:\n\tjne\t.L1\n"])
def test_nothing_is_found_in_nothing(text):
    assert find_spills(text, text) == ()


def test_a_text_without_stack_moves():
    assert find_spills(GCC_AVX512.replace("%sfp", "T"), SOURCE) == ()


def test_machines():
    assert understood("x86_64-linux-gnu") and understood("aarch64-linux-gnu")
    assert understood("arm64-apple-darwin23") and not understood("riscv64-linux-gnu")
