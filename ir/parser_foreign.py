"""What operators and attributes are called elsewhere (torch, numpy, ONNX, MLIR, einops), and how they are written here.

Only names: `parser_calls` makes the call.  A name that is not here is compared with the operators that there are.
"""

from __future__ import annotations

_MODULES = (
    "torch np numpy jnp jax lax tf keras nn F functional math aten prims ops scipy special linalg onnx op einops "
    "arith tosa stablehlo mhlo hlo tensor mlir cp cupy Tensor relax nnx flax linen backend K"
)
MODULES = frozenset(_MODULES.split())
"""What stands before the dot of a function of theirs."""


def _pairs(text: str) -> dict[str, str]:
    """`here: there there` lines, turned around."""
    rows = (line.split(":") for line in text.strip().splitlines())
    return {foreign: own.strip() for own, names in rows for foreign in names.split()}


RENAMED = _pairs(
    """
    concat: cat concatenate concat_v2 concatv2
    matmul: mm bmm dot mv batch_matmul matvec batchmatmul
    add: addf addi plus addv2
    sub: subtract subf subi minus
    mul: multiply mulf muli times
    div: divide true_divide truediv divf realdiv
    floordiv: floor_divide floor_div floordivide divsi
    mod: remainder floormod floor_mod
    pow: power powf float_power
    neg: negative negate negf
    abs: absolute absf fabs
    clamp: clip clip_by_value clamp_
    gt: greater greater_than
    ge: greater_equal greater_or_equal greaterorequal
    lt: less less_than
    le: less_equal less_or_equal lessorequal
    eq: equal equals
    ne: not_equal notequal
    maximum: max2 maximumf fmax maxf
    minimum: min2 minimumf fmin minf
    acos: arccos
    asin: arcsin
    atan: arctan
    acosh: arccosh
    asinh: arcsinh
    atanh: arctanh
    atan2: arctan2
    round: rint round_ roundeven
    trunc: fix truncate
    reciprocal: inv
    rsqrt: rsqrt_
    unsqueeze: expand_dims expanddims newaxis
    reshape: view reshape_ unflatten collapse_shape expand_shape
    flatten: ravel
    transpose: swapaxes swapdims swap_axes matrix_transpose t adjoint
    permute: permute_dims
    broadcast_to: broadcast_in_dim broadcast expand_to
    cast: astype convert_element_type convert to_dtype convert_dtype
    max: amax reduce_max reducemax nanmax
    min: amin reduce_min reducemin nanmin
    sum: reduce_sum reducesum nansum
    mean: reduce_mean reducemean average avg nanmean
    prod: reduce_prod reduceprod product
    all: reduce_all alltrue
    any: reduce_any sometrue
    logsumexp: reduce_logsumexp reducelogsumexp reduce_log_sum_exp
    argmax: arg_max
    argmin: arg_min
    topk: top_k
    cumsum: cumulative_sum
    cumprod: cumulative_prod
    softmax: soft_max
    log_softmax: logsoftmax
    silu: swish
    hardswish: hard_swish hswish h_swish
    hardsigmoid: hard_sigmoid hsigmoid
    leaky_relu: leakyrelu
    sigmoid: logistic expit
    layer_norm: layernorm layernormalization layer_normalization native_layer_norm
    batch_norm: batchnorm batchnorm1d batchnorm2d batchnorm3d batchnormalization batch_normalization
    group_norm: groupnorm groupnormalization
    rms_norm: rmsnorm rmsnormalization
    max_pool: max_pool1d max_pool2d max_pool3d maxpool maxpool1d maxpool2d maxpool3d
    avg_pool: avg_pool1d avg_pool2d avg_pool3d avgpool avgpool1d avgpool2d avgpool3d averagepool
    adaptive_avg_pool: adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptiveavgpool2d
    adaptive_max_pool: adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d adaptivemaxpool2d
    conv: conv1d conv2d conv3d convolution conv_nd
    conv_transpose: conv_transpose1d conv_transpose2d conv_transpose3d convtranspose convtranspose2d deconv
    attention: scaled_dot_product_attention sdpa dot_product_attention
    resize: interpolate upsample resize_bilinear resize_nearest resize_images upsample_nearest upsample_bilinear
    grid_sample: gridsample grid_sampler grid_sampler_2d grid_sampler_3d
    where: where_ select_n
    one_hot: onehot
    flip: reverse
    tile: repeat_to
    diagonal: diag
    triu: triu_
    tril: tril_
    sort: msort
    bitwise_not: invert
    left_shift: bitwise_left_shift shift_left shli
    right_shift: bitwise_right_shift shift_right shrsi
    isinf: is_inf
    isnan: is_nan
    isfinite: is_finite
    logical_not: not_
    logical_and: and_
    logical_or: or_
    erf: erff
    exp: expf
    svd: linalg_svd
    eigh: linalg_eigh
    cholesky: linalg_cholesky
    solve_triangular: triangular_solve linalg_solve_triangular
    norm: vector_norm linalg_vector_norm
    split: array_split tensor_split
    dim: size shape_of shape tensor_dim numel_of len
    arange: range
    eye: identity_matrix
    stack: pack
    gather: gather_elements gatherelements take_along_axis takealongaxis
    embedding: embedding_lookup
    gather_nd: gathernd
    """
)
"""Operators of the same operands under another name."""

WRITTEN = {
    "masked_fill": ("`where({1}, {2}, {0})`", "x", "mask", "0"),
    "select": ("`take({0}, {2}, axis={1})`", "x", "0", "i"),
    "narrow": ("`slice({0}, axis={1}, start={2}, stop={2} + {3})`", "x", "0", "start", "length"),
    "chunk": ("`split({0}, sections={1}, axis={2})`", "x", "2", "0"),
    "relu6": ("`clamp({0}, 0, 6)`", "x"),
    "float": ("`cast({0}, dtype=f32)`", "x"),
    "half": ("`cast({0}, dtype=f16)`", "x"),
    "double": ("`cast({0}, dtype=f64)`", "x"),
    "bfloat16": ("`cast({0}, dtype=bf16)`", "x"),
    "long": ("`cast({0}, dtype=i64)`", "x"),
    "int": ("`cast({0}, dtype=i32)`", "x"),
    "bool": ("`ne({0}, 0)`", "x"),
    "to": ("`cast({0}, dtype={1})`", "x", "f16"),
    "type": ("`cast({0}, dtype={1})`", "x", "f16"),
    "scatter_add": ('`scatter({0}, {2}, {3}, axis={1}, reduce="add")`', "x", "0", "i", "updates"),
    "index_add": ('`scatter({0}, {2}, {3}, axis={1}, reduce="add")`', "x", "0", "i", "updates"),
    "hstack": ("`concat({0}, {1}, axis=1)`", "x", "y"),
    "vstack": ("`concat({0}, {1}, axis=0)`", "x", "y"),
    "outer": ('`einsum({0}, {1}, equation="i,j->ij")`', "x", "y"),
    "trace": ('`einsum({0}, equation="ii->")`', "x"),
    "nan_to_num": ("`where(isnan, 0, {0})` after `isnan = isnan({0})`", "x"),
    "softsign": ("`div({0}, d)` after `a = abs({0})` and `d = add(a, 1)`", "x"),
    "lerp": ("`fma({2}, d, {0})` after `d = sub({1}, {0})`", "x", "y", "w"),
    "addmm": ("`add(p, {0})` after `p = matmul({1}, {2})`", "b", "x", "w"),
    "gemm": ("`matmul({0}, {1})` and `add` for the bias: `add(y, b)`", "x", "w"),
    "linear": ("`matmul({0}, {1}, transpose_b=true)` for a weight [out, in], then `add(y, b)`", "x", "w"),
    "unbind": ("`split({0}, sections=4, axis=0)` and `squeeze(a, axis=0)` of each part, `sections` the size", "x"),
    "tensordot": ('`einsum({0}, {1}, equation="ij,jk->ik")`', "x", "y"),
    "instance_norm": ("`group_norm({0}, groups=8)` with as many groups as channels", "x"),
    "prelu": ("`where(p, {0}, q)` after `p = gt({0}, 0)` and `q = mul({0}, {1})`", "x", "a"),
    "mish": ("`mul({0}, t)` after `s = softplus({0})` and `t = tanh(s)`", "x"),
    "hypot": ("`sqrt(s)` after `s = fma({0}, {0}, t)` and `t = square({1})`", "x", "y"),
    "dynamic_slice": ("`slice({0}, axis=0, start=i, stop=i + 1)`", "x"),
    "moveaxis": ("`permute({0}, axes=[1, 0])` with all axes in their new order", "x"),
    "movedim": ("`permute({0}, axes=[1, 0])` with all axes in their new order", "x"),
    "rearrange": ("`permute({0}, axes=[1, 0])` and `reshape({0}, shape=[a, b])`", "x"),
    "reduce": ("`sum({0}, axis=1)` or `mean`, `max`, `min`, `prod` in its place, with the axes that go", "x"),
    "repeat_interleave": (
        "`reshape(e, shape=[n*k])` after `u = unsqueeze({0}, axis=1)` and `e = expand(u, shape=[n, k])`",
        "x",
    ),
    "pixel_shuffle": ("`permute({0}, axes=[0, 1, 2])` between two `reshape({0}, shape=[a, b])`", "x"),
    "meshgrid": ("`expand(u, shape=[n, m])` after `u = unsqueeze({0}, axis=1)`", "x"),
    "linspace": ("`mul(i, step)` after `i = arange(stop=n, dtype=f32)`", "x"),
    "tensor": ("`const @c : f32[2] = [1, 2]` at the head of the file, then `@c`; a number is an operand itself", "x"),
    "constant": ("`const @c : f32[2] = [1, 2]` at the head of the file, then `@c`; a number is an operand itself", "x"),
    "array": ("`const @c : f32[2] = [1, 2]` at the head of the file, then `@c`; a number is an operand itself", "x"),
    "zeros_like": ("`zeros(shape=[n, m])` with the sizes of `{0}`", "x"),
    "ones_like": ("`ones(shape=[n, m])` with the sizes of `{0}`", "x"),
    "full_like": ("`full(shape=[n, m], value={1})` with the sizes of `{0}`", "x", "0"),
    "empty": ("`zeros(shape=[n, m])`", "x"),
    "empty_like": ("`zeros(shape=[n, m])` with the sizes of `{0}`", "x"),
    "view_as": ("`reshape({0}, shape=[n, m])` with the sizes of `{1}`", "x", "y"),
    "expand_as": ("`expand({0}, shape=[n, m])` with the sizes of `{1}`", "x", "y"),
    "cross_entropy": ("`log_softmax({0}, axis=1)`, then `gather` and `mean`, as in `mean(g)`", "x"),
    "mse_loss": ("`mean(s)` after `d = sub({0}, {1})` and `s = square(d)`", "x", "y"),
    "l1_loss": ("`mean(a)` after `d = sub({0}, {1})` and `a = abs(d)`", "x", "y"),
    "numel": ("`n*m` from the sizes in its type, as in `mul(y, n*m)`", "x"),
    "item": ("`{0}` itself: a value of type f32[] is a number already, as in `mul(y, {0})`", "x"),
}  # fmt: skip
"""Operators that are written with others: the call, with `{i}` for the operands, and what stands for a missing one."""

_NOTHING = (
    "dropout dropout2d alpha_dropout contiguous clone detach copy identity stop_gradient ensure_contiguous "
    "requires_grad_ block_until_ready with_sharding_constraint cpu cuda device_put eval no_grad asarray"
)
NOTHING = frozenset(_NOTHING.split())
"""What has no effect in a program of values that is only run."""

RANDOM = frozenset(
    {"rand", "randn", "randint", "random", "normal", "uniform", "bernoulli", "multinomial", "rand_like", "randn_like"}
)

ATTRIBUTES = {
    "dim": ("axis", "axes"), "dims": ("axes", "axis"), "axis": ("axes",), "axes": ("axis",), "axis_": ("axis",),
    "dimension": ("axis", "axes"), "dimensions": ("axes", "axis"), "perm": ("axes",), "permutation": ("axes",),
    "keepdim": ("keepdims",), "keep_dims": ("keepdims",), "p": ("ord",), "order": ("ord",),
    "size": ("size", "shape", "output_size"), "sizes": ("shape", "size"), "newshape": ("shape",),
    "new_shape": ("shape",), "output_shape": ("shape", "output_size"), "out_shape": ("shape",),
    "target_shape": ("shape",), "shift": ("shift",), "shifts": ("shift",), "end": ("stop",), "ends": ("stop",),
    "starts": ("start",), "begin": ("start",), "steps": ("step",), "strides": ("step", "stride"),
    "to": ("dtype",), "type": ("dtype",), "element_type": ("dtype",), "kernel": ("kernel_size",),
    "kernel_shape": ("kernel_size",), "pool_size": ("kernel_size",), "window": ("kernel_size",),
    "window_shape": ("kernel_size",), "pads": ("padding",), "pad": ("pads", "padding"), "paddings": ("pads", "padding"),
    "pad_width": ("pads",), "padding": ("pads",), "dilations": ("dilation",), "rhs_dilation": ("dilation",),
    "group": ("groups",), "num_groups": ("groups",), "feature_group_count": ("groups",), "reps": ("repeats",),
    "multiples": ("repeats",), "epsilon": ("eps",), "alpha": ("negative_slope", "alpha"), "slope": ("negative_slope",),
    "fill_value": ("value",), "constant_value": ("value",), "constant_values": ("value",), "is_causal": ("causal",),
    "ddof": ("correction",), "num_or_size_splits": ("sections",), "chunks": ("sections",),
    "indices_or_sections": ("sections",), "num_outputs": ("sections",), "split": ("sizes",),
    "split_size_or_sections": ("sizes",), "depth": ("num_classes",), "transa": ("transpose_a",),
    "transA": ("transpose_a",), "transB": ("transpose_b",), "transb": ("transpose_b",), "trans_a": ("transpose_a",),
    "trans_b": ("transpose_b",), "adjoint_a": ("transpose_a",), "adjoint_b": ("transpose_b",), "n": ("sections",),
    "offset": ("diagonal",), "ceil": ("ceil_mode",), "subscripts": ("equation",), "pattern": ("equation",),
    "name": ("message",), "num": ("sections",), "reduction": ("reduce",), "upper": ("lower",), "scale_factor": (),
    "interpolation": ("mode",), "method": ("mode",),
}  # fmt: skip
"""Attributes by other names: the first that the operator has is meant."""

IDLE = frozenset({"inplace", "training", "memory_format", "requires_grad", "device", "layout", "out", "non_blocking"})
"""Attributes that say nothing here when they are left out."""

OPERANDS = {"input": 0, "self": 0, "tensor": 0, "tensors": 0, "a": 0, "x1": 0, "data": 0, "other": 1, "x2": 1, "b": 1}
"""Operands that are given by name elsewhere, by position."""

POSITIONAL: dict[str, tuple[str, ...]] = {
    "arange": (), "resize": ("size",), "grid_sample": ("mode", "padding_mode", "align_corners"), "norm": (),
    "split": (), "pad": (), "layer_norm": (), "rms_norm": (), "batch_norm": (),
    "attention": (), "diagonal": (), "repeat": (), "var": ("axis",), "std": ("axis",), "scatter": (),
    "max_pool": ("kernel_size", "stride", "padding"), "conv_transpose": ("stride", "padding"),
    "slice_scatter": ("axis", "start"), "group_norm": ("groups",),
}  # fmt: skip
"""Attributes that are meant by position, where that is not the order in which the operator has them."""

SPREAD = frozenset({"reshape", "permute", "expand", "broadcast_to", "tile", "zeros", "ones", "transpose", "flip"})
"""Operators whose one list is often given as several arguments."""

DTYPES = {
    "float": "f32", "float32": "f32", "float64": "f64", "double": "f64", "half": "f16", "float16": "f16",
    "bfloat16": "bf16", "int": "i64", "int64": "i64", "long": "i64", "int32": "i32", "int16": "i16", "int8": "i8",
    "uint8": "u8", "i1": "bool", "boolean": "bool", "si32": "i32", "si64": "i64", "ui8": "u8", "byte": "u8",
    "short": "i16", "fp32": "f32", "fp16": "f16", "fp64": "f64", "bool_": "bool", "index": "i64",
}  # fmt: skip
"""Element types by other names."""

AXIS_SECOND = frozenset(["index_select", "gather", "scatter", "take"])
"""Operators whose axis is the second operand in torch."""

USAGE = {
    "split": "`split(x, sections=2)` for parts of equal size, `split(x, sizes=[2, 3])` for others",
    "pad": "`pad(x, pads=[[1, 1], [0, 0]])`: how many before and after, for every axis",
    "repeat": "`repeat(x, repeats=[2, 1])`: the whole tensor, how often along every axis",
    "norm": "`norm(x, axis=1, ord=2)`",
    "resize": "`resize(x, size=[2*h, 2*w])`, where `h` and `w` are the sizes in the type of `x`",
    "layer_norm": "`layer_norm(x, weight, bias, axis=-1)`",
    "rms_norm": "`rms_norm(x, weight, axis=-1)`",
    "diagonal": "`diagonal(x, axis=[0, 1], offset=0)`",
    "scatter": "`scatter(x, indices, updates, axis=0)`",
    "gelu": "`gelu(x)`, or `gelu_tanh(x)` for the approximation",
    "transpose": "`transpose(x, axis=[0, 1])`",
    "attention": "`attention(q, k, v, mask, causal=true)`",
    "var": "`var(x, axis=1, correction=1)`",
    "std": "`std(x, axis=1, correction=1)`",
}
"""How a call looks whose arguments stand in another order elsewhere, so that nothing is guessed."""

VALUES = {
    "edge": "replicate", "replication": "replicate", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic",
    "nearest_exact": "nearest-exact", "nearest-neighbor": "nearest", "add": "add", "sum": "add", "amax": "max",
    "amin": "min", "maximum": "max", "minimum": "min", "multiply": "mul", "prod": "mul", "none": "set", "zero": "zeros",
    "constant": "constant", "clamp": "border", "mirror": "reflect", "reflection": "reflect",
}  # fmt: skip
"""Values of attributes by other names."""

SPELT = {"True": "true", "False": "false", "None": "none", "null": "none", "np.inf": "inf", "math.inf": "inf"}
"""Constants as they are written elsewhere."""

PROPERTIES = {
    "T": "write `transpose({0})`",
    "mT": "write `transpose({0})`",
    "shape": "its sizes have names in its type; one of them as a value is `dim({0}, axis=0)`",
    "size": "its sizes have names in its type; one of them as a value is `dim({0}, axis=0)`",
    "ndim": "the rank of a value is fixed: write the number",
    "dtype": "the element type is fixed: write it, as in `cast({0}, dtype=f32)`",
    "real": "there are no complex numbers: `{0}` is real",
}
