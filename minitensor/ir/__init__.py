"""Layer 0: syntax, checking, meaning. The loop-nest language, in one paragraph:

    Program = (name, params: Buffer*, temporaries: Buffer*, body: Stmt)
    Buffer  = (name, shape: int*, dtype, scope, alignment)
    Stmt    = For(var, extent, body, kind)
            | Seq(stmts)
            | Block(name, Iter*, predicate, init, body)      Iter = (var, extent, kind, binding)
            | Store(buffer, indices, value)
            | Reduce(reducer, buffers, indices, values)
            | If(condition, then, otherwise)
            | Alloc(buffer, body) | Barrier()                } made by code generation only
            | ThreadReduce(reducer, thread, buffers)         }
            | Prefetch(buffer, indices)                      }
            | Tensorized(intrinsic, operands, axes, body)    }
    Expr    = Var | Const | Unary | Binary | Select | Cast | Load | Call
            | Ramp | Broadcast | Lanes                       made by code generation only

    LoopKind = serial | parallel | vectorize | unroll | blockIdx.* | threadIdx.* | vthread
             | tensorize
    IterKind = spatial | reduce | ordered
    Scope    = global | local | register | shared

Everything is immutable and compared by structure. Names of loops, blocks and buffers are unique in
a program and are the handles by which users and primitives refer to them. Read in this order:
`dtype`, `expr`, `stmt` (the nodes and what they mean), `program`, `lifetime` (of temporaries),
`interp` (the definition), `intrinsic` (what may stand in for a loop nest), then `visit`, `printer`,
`verify`, `equal`; `facts`, `summary` and `dataflow` are what is known of nodes.
"""

# fmt: off
from minitensor.ir.by_numpy import apply_by_numpy, value_by_numpy
from minitensor.ir.dtype import (
    BOOL, FLOAT32, INDEX, INT64, USER_DTYPES, DType, from_bfloat16, lacking_in_numpy, numpy_dtype,
    pack, to_bfloat16, unpack,
)
from minitensor.ir.equal import structural_equal, structural_hash
from minitensor.ir.evaluate import evaluate
from minitensor.ir.expr import (
    BITWISE, COMPARISONS, FALSE, FUNCTIONS, LOGICAL, SHIFTS, TRUE, Binary, BinaryOp, Broadcast,
    Call, Cast, Const, Expr, Lanes, Load, Ramp, Select, Unary, UnaryOp, Var, arithmetic, as_expr,
    at_most, conjunction, conjuncts, const, equal, floor_div, floor_mod, less, wrap_integer,
)
from minitensor.ir.dataflow import accessed_buffers, readers, writers
from minitensor.ir.facts import Note, fact
from minitensor.ir.lifetime import lifetimes
from minitensor.ir.interp import interpret
from minitensor.ir.intrinsic import DECLARED, NOTE, READY, SEPARATOR, Body, Intrinsic
from minitensor.ir.intrinsic import known_intrinsic
from minitensor.ir.memory import Counts
from minitensor.ir.names import fresh_name
from minitensor.ir.numbers import constant as constant_value
from minitensor.ir.printer import (
    Marks, print_expr, print_indices, print_name, print_stmt, print_type,
    simplify_indices_by, summary_if_large,
)
from minitensor.ir.extrema import arg_extremum, highest, in_order, lowest, operator_of
from minitensor.ir.program import (
    LoopSite, Program, loop_sites, marked_loops, names_in, nests, paths, print_program,
    stored_buffers, survey,
)
from minitensor.ir.stmt import (
    MOST_ALONG, MOST_THREADS, NOTHING, WARP, Alloc, Annotation, Annotations, Barrier, Block, Buffer,
    For, If, Iter, IterKind, LoopKind, Node, Prefetch, Reduce, Reducer, Scope, Seq, Stmt, Store,
    Tensorized, ThreadReduce, allocated, nest, sequence, strides_of, with_body,
)
from minitensor.ir.summary import LARGEST, make_room, summary
from minitensor.ir.verify import verify
from minitensor.ir.visit import (
    accesses, apply_reducer, blocks_of, children, combines, free_vars, loads, loops_of,
    map_children, map_stmts, measured, mentions, nodes_in, rewrite, stmts_of, substitute, walk,
)

__all__ = [
    "BITWISE", "BOOL", "COMPARISONS", "DECLARED", "FALSE", "FLOAT32", "FUNCTIONS", "INDEX", "INT64",
    "LARGEST", "LOGICAL", "MOST_ALONG", "MOST_THREADS", "NOTE", "NOTHING", "READY", "SEPARATOR",
    "SHIFTS", "TRUE", "USER_DTYPES", "WARP", "Alloc", "Annotation", "Annotations", "Barrier",
    "Binary", "BinaryOp", "Block", "Body", "Broadcast", "Buffer", "Call", "Cast", "Const", "Counts",
    "DType", "Expr", "For", "If", "Intrinsic", "Iter", "IterKind", "Lanes", "Load", "LoopKind",
    "LoopSite", "Marks", "Node", "Note", "Prefetch", "Program", "Ramp", "Reduce", "Reducer",
    "Scope", "Select", "Seq", "Stmt", "Store", "Tensorized", "ThreadReduce", "Unary", "UnaryOp",
    "Var", "accessed_buffers", "accesses", "allocated", "apply_by_numpy", "apply_reducer",
    "arg_extremum", "arithmetic", "as_expr", "at_most", "blocks_of", "children", "combines",
    "conjunction", "conjuncts", "const", "constant_value", "equal", "evaluate", "fact", "floor_div",
    "floor_mod", "free_vars", "fresh_name", "from_bfloat16", "highest", "in_order", "interpret",
    "known_intrinsic", "lacking_in_numpy", "less", "lifetimes", "loads", "loop_sites", "loops_of",
    "lowest", "make_room", "map_children", "map_stmts", "marked_loops", "measured", "mentions",
    "names_in", "nest", "nests", "nodes_in", "numpy_dtype", "operator_of", "pack", "paths",
    "print_expr", "print_indices", "print_name", "print_program", "print_stmt", "print_type",
    "readers", "rewrite", "sequence", "simplify_indices_by", "stmts_of", "stored_buffers",
    "strides_of", "structural_equal", "structural_hash", "substitute", "summary",
    "summary_if_large", "survey", "to_bfloat16", "unpack", "value_by_numpy", "verify", "walk",
    "with_body", "wrap_integer", "writers",
]
