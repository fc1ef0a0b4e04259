"""Images in another size, and images read at places that data give: one row an overload."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.dims import Dim
from ...ir.graph import Operand
from .arithmetic import Real
from .context import Args, Context, Row


def resized(mode: str) -> Row:
    """In a size that is given, or made of the size there is by a factor, which then places are computed with too."""

    def row(t: Context, a: Args) -> Operand:
        x, scales = a.get("input", a.get("self")), a.get("scale_factors")
        size = a.output_size
        if size is None:
            spatial = t.type(x).dims[2:]
            size = [t.arithmetic.apply("trunc", Real("mul", (d, f))) for d, f in zip(spatial, scales, strict=True)]
        scale = None if scales is None else tuple(map(float, scales))
        corners = bool(a.get("align_corners", False))
        return t.op("resize", x, size=tuple(map(Dim.of, size)), mode=mode, align_corners=corners, scales=scale)

    return row


_MODES = ("linear", "nearest", "cubic")
_PADDINGS = ("zeros", "border", "reflection")


def grid_sample(t: Context, a: Args) -> Operand:
    mode, padding = _MODES[a.interpolation_mode], _PADDINGS[a.padding_mode]
    corners = bool(a.align_corners)
    return t.op("grid_sample", a.input, a.grid, mode=mode, padding_mode=padding, align_corners=corners)


_INTERPOLATED = {
    "upsample_linear1d": "linear",
    "upsample_bilinear2d": "linear",
    "upsample_trilinear3d": "linear",
    "upsample_bicubic2d": "cubic",
}
_NEAREST = {
    **{f"upsample_nearest{n}d": "nearest" for n in (1, 2, 3)},
    **{f"_upsample_nearest_exact{n}d": "nearest-exact" for n in (1, 2, 3)},
}

RESAMPLE: Mapping[str, Row] = {
    **{f"aten.{name}.vec": resized(mode) for name, mode in {**_NEAREST, **_INTERPOLATED}.items()},
    "aten.grid_sampler_2d.default": grid_sample,
    "aten.grid_sampler_3d.default": grid_sample,
}
