"""What torch.export says when it fails, and what we know to do about it."""

from __future__ import annotations

from ...ir.diagnostics import CompileError, error

_ADVICE: tuple[tuple[str, str], ...] = (
    (
        "specialized",
        (
            "the model's code fixes that size (a Python number made of it, a buffer of that length); make the code use "
            "x.shape, or leave the size out of dynamic_shapes"
        ),
    ),
    ("Constraints violated", "take the relation that torch suggests into dynamic_shapes, or use Dim.AUTO"),
    (
        "not matching the current structure",
        "dynamic_shapes must have the structure of the arguments: a tuple for args, names for kwargs",
    ),
    ("Detected mismatch between the structure", "give dynamic_shapes one entry an argument, in their structure"),
    ("data-dependent", "a branch or size of the model depends on values; use torch.where, or masks of a fixed size"),
    ("Data-dependent", "a branch or size of the model depends on values; use torch.where, or masks of a fixed size"),
    ("alias", "give the export separate tensors (x.clone()) for arguments that may differ later"),
    ("training", "call model.eval() first"),
)


def export_advice(failure: Exception) -> CompileError:
    """torch's own words (their first paragraph), with ours where we know better."""
    text = str(failure).strip() or type(failure).__name__
    first = text.split("\n\n")[0].strip()
    helps = tuple(advice for key, advice in _ADVICE if key in text)[:2]
    return error(f"torch.export failed: {first}", notes=tuple(text.split("\n\n")[1:2]), helps=helps)
