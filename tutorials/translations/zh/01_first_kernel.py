# %% [markdown]
# # 第一个 kernel：从表达式到机器码
#
# **学完本课，你将能够**：定义一个计算，读懂它的循环嵌套，把一个计算阶段移到另一个阶段里面，
# 看懂系统为什么拒绝某一步变换，最后编译并运行得到的结果。
#
# *kernel* 是对数组做计算、必须很快的函数；它里面是一层套一层的循环，即*循环嵌套*（loop nest）。
# minitensor 把“算什么”和“怎么算”分开。“算什么”是一个表达式；“怎么算”是一份调度（schedule），
# 也就是一串改写循环的步骤。本课用一个小程序把整个流程走一遍。每一行代码都能运行：可以放在
# notebook 里，可以执行 `python 01_first_kernel.py`，也可以直接粘贴到交互式命令行。
# （notebook 会直接显示图片；运行脚本时，图片在 `pictures` 文件夹里。）

# %%
import numpy as np

import minitensor as mt
from minitensor_course import picture

# %% [markdown]
# ## 算什么
#
# 以模糊（blur）为例，它有两个*阶段*（stage）：`P` 的每个元素是 `A` 中对应元素的两倍，`Q` 的每个
# 元素是 `P` 中三个相邻元素之和。`mt.placeholder` 是一个输入。`mt.compute` 接收一个形状和一个以
# 下标为参数的函数，函数说明“一个元素是什么”；此时还没有进行任何计算。`mt.lower` 由此得到程序，
# 它按调用时的顺序接收 kernel 的参数。`P` 不在参数之中，因此它成为一个临时数组。

# %%
N = 32
A = mt.placeholder((N + 2,), "float32", name="A")
P = mt.compute((N + 2,), lambda x: A[x] * 2.0, name="P")
Q = mt.compute((N,), lambda y: P[y] + P[y + 1] + P[y + 2], name="Q")

program = mt.lower([A, Q], name="blur")
print(program)

# %% [markdown]
# 这里有前后两个循环：先算出整个 `P`，再算出整个 `Q`。每个循环里有一个*块*（block），它是调度所
# 移动的基本单位。`P` 和 `Q` 是块的名字，`x` 和 `y` 是循环的名字。
#
# 用普通的 Python 来写，就是：


# %%
def blur(a):
    """手写的循环，与程序一致。"""
    p, q = np.empty(N + 2, "float32"), np.empty(N, "float32")
    for x in range(N + 2):
        p[x] = a[x] * 2
    for y in range(N):
        q[y] = p[y] + p[y + 1] + p[y + 2]
    return q


# %% [markdown]
# ## 程序的含义
#
# *解释器*（interpreter）可以运行任何程序；它很慢，但所有检查都打开。一个程序的含义以解释器的结果
# 为准。解释器还会计数：每个数组被读取（load）和写入（store）了多少个元素。
#
# **先猜一猜。** `Q` 有 32 个元素，每个元素要读取 `P` 的三个元素。那么 `A` 一共会被读取多少次？
# `P` 呢？

# %%
a = np.arange(N + 2, dtype="float32")
q, counts = mt.interpret(program, a, counts=True)
assert np.array_equal(q, blur(a))
print("A 的读取次数：", counts.loads["A"], " P 的读取次数：", counts.loads["P"])
assert counts.loads["A"] == 34  # 每个元素读一次，用来计算 P
assert counts.loads["P"] == 3 * 32

# %% [markdown]
# ## 怎么算
#
# 在读取 `P` 的任何元素之前，整个 `P` 都已写入内存。只有 32 个元素时这没有什么关系；如果是
# 3200 万个元素，数据就要在内存里往返一趟。所以我们把 `Q` 切成每块 8 个元素的分块（tile），在计算
# 每个分块之前，只计算这个分块所需要的那部分 `P`：8 个元素，再加上 2 个边缘元素，即 *halo*。

# %%
s = mt.Schedule(program)
(y,) = s.get_loops("Q")  # 块 Q 外面的各层循环
y_0, y_1 = s.split(y, [None, 8])  # None：需要多少个分块，就有多少个
s.compute_at("P", y_0)
s.show()

# %%
picture("01_tiles", s)

# %% [markdown]
# `split` 把一个循环切成两个，`compute_at` 把 `P` 的循环移到另一个循环里面。这里 `P` 仍有 34 个
# 元素；到最后生成机器码时，才只保留一个分块所需的 10 个。用普通的 Python 来写：`p` 是一个有 10 个
# 元素的数组，每个分块都重新填写一遍：


# %%
def blur_in_tiles(a):
    """手写的循环，与调度一致。"""
    q = np.empty(N, "float32")
    for y_0 in range(4):
        p = np.empty(10, "float32")
        for x in range(10):
            p[x] = a[8 * y_0 + x] * 2
        for y_1 in range(8):
            q[8 * y_0 + y_1] = p[y_1] + p[y_1 + 1] + p[y_1 + 2]
    return q


assert np.array_equal(blur_in_tiles(a), q)

# %% [markdown]
# 代价是：相邻的两个分块都要计算它们之间的 halo。解释器可以告诉我们多算了多少。

# %%
_, counts = mt.interpret(s, a, counts=True)
print("P 的写入次数：", counts.stores["P"], "，原来是", N + 2)
assert counts.stores["P"] == 4 * 10

# %% [markdown]
# ## 会出错的步骤会被拒绝
#
# `compute_inline` 把一个块内联到读取它的地方，这个块随之消失。`Q` 是程序的输出，没有别的块读取它，
# 所以不能内联。系统拒绝时会指出违反了哪条规则、问题出在哪里，而调度保持不变。

# %%
try:
    s.compute_inline("Q")
except mt.ScheduleError as error:
    print(error)
    assert error.rule == "R2"

# %% [markdown]
# ## 机器码
#
# 各个分块互不依赖，因为每个分块都有自己的那一段 `P`。因此分块之间可以并行，由几个*线程*（thread）
# 执行，每个线程使用处理器的一个核心；分块内的元素可以放进*向量指令*的各个通道（lane），这种指令
# 一次处理好几个数。每一步既可以用循环的名字，也可以用前面的步骤返回的循环；`compute_at` 返回 `P`
# 的新循环。调度的 *trace* 就是它的步骤的列表。`mt.build` 生成 C 代码（C 是一种接近机器的语言）并
# 调用编译器；如果没有 C 编译器，就由解释器代替。这些 C 代码现在不必读懂，第 5 课会讲。

# %%
s = mt.Schedule(program)
y_0, y_1 = s.split("y", [None, 8])
(p,) = s.compute_at("P", y_0)
s.parallel(y_0)
s.vectorize(y_1)
s.vectorize(p)
print(s.trace.as_python())

try:
    kernel = mt.build(s)
    print(kernel.source)
except mt.CompileError as error:
    print(error)
    kernel = mt.build(s, target="interpreter")
assert np.array_equal(kernel(a), q)

# %% [markdown]
# ## 常见错误
#
# - `mt.lower([A, P, Q])` 会让 `P` 成为 kernel 的参数。这样 `P` 既不能缩小，也不能内联：调用者要的
#   是完整的 `P`。
# - 循环一旦被拆分（split）就不存在了：`y` 不再是一个名字，`y_0` 和 `y_1` 才是。请保存每一步返回的
#   名字。
# - `s.split(y, [None, 8])` 要从外向内读：外层是分块，每个分块里有 8 个元素。`[8, None]` 则是一共
#   8 个分块。
#
# ## 练习
#
# 在 `01_tasks.py` 中写出下面的函数，然后用 `minitensor course check 01` 评判。
#
# 1. `define(n)`：返回一个*锐化*（sharpen）程序：`R[i] = 3 * A[i + 1] - A[i] - A[i + 2]`，共 `n` 个
#    元素；输入 `A` 有 `n + 2` 个 float32 元素，输出是 `R`。
# 2. `recompute(s)`：`s` 是一个与上文类似的模糊程序的调度，但大小和相邻元素的个数可能不同。请修改
#    它，使得数组 `P` 完全不存在。
# 3. `tiles(s, size)`：还是这个程序，请分段计算 `P`，使得每个 `size` 个元素的分块所需要的每个 `P`
#    元素，在该分块中恰好计算一次。
#
# ## 参考文献
#
# - J. Ragan-Kelley et al., "Halide: a language and compiler for optimizing parallelism, locality,
#   and recomputation in image processing pipelines", PLDI 2013，第 2、3 节：模糊的例子，以及
#   调度如何在并行性、局部性与重复计算三者之间取舍。
# - T. Chen et al., "TVM: an automated end-to-end optimizing compiler for deep learning",
#   OSDI 2018，第 4.1 节：张量表达式与调度。
