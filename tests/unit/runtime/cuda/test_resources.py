"""What ptxas prints, of several releases."""

from minitensor.runtime.cuda.resources import Resources, read_resources

OF_13 = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'one_kernel' for 'sm_90'
ptxas info    : Function properties for one_kernel
    800 bytes stack frame, 12 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 816 bytes cumulative stack size
ptxas info    : Compile time = 32.307 ms
ptxas info    : Function properties for _Z6helperPf
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Compiling entry function 'two_kernel' for 'sm_90'
ptxas info    : Function properties for two_kernel
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 1 barriers, 1024 bytes smem
"""
OF_11 = """\
ptxas info    : 0 bytes gmem, 16 bytes cmem[3]
ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Function properties for k
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, 1024+0 bytes smem, 380 bytes cmem[0], 8 bytes cmem[2]
"""


def test_numbers_belong_to_their_kernels():
    assert read_resources(OF_13) == {
        "one_kernel": Resources(registers=32, spills=36, stack=816, shared=0, constant=0),
        "two_kernel": Resources(registers=12, spills=0, stack=0, shared=1024, constant=0),
    }


def test_constant_memory_of_every_bank():
    assert read_resources(OF_11) == {"k": Resources(40, 0, 0, 1024, 388)}


def test_properties_of_a_helper_that_stand_before_the_registers():
    lines = OF_13.splitlines()
    moved = [*lines[:4], *lines[6:8], *lines[4:6], *lines[8:]]
    assert read_resources("\n".join(moved)) == read_resources(OF_13)


def test_nothing_printed():
    assert read_resources("") == {} == read_resources("warning: unused\n")
