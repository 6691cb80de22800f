"""The small programs that give an image layer its colours. Text only: Neuroglancer compiles them in the browser.

Values are those of the nearest voxel, never interpolated: what is shown is what is there.
"""

from __future__ import annotations

Range = tuple[float, float]


def raw_shader(display_range: Range, channels: int = 1) -> str:
    """Grey, black at the lower end of `display_range` and white at the upper, both to be changed in the viewer."""
    return _program(
        [_range_control(display_range), *_channel_control(channels)],
        [f"emitGrayscale(normalized({_value(channels)}));"],
    )


def prediction_shader_for(display_range: Range, color: str, channels: int = 1) -> str:
    """`color` ("#rrggbb"), clear at the lower end of `display_range` and full at the upper.

    Range and colour are controls in the viewer; with several channels so is which one is shown.
    """
    return _program(
        [_range_control(display_range), _color_control(color), *_channel_control(channels)],
        [f"emitRGBA(vec4(color, normalized({_value(channels)})));"],
    )


def mask_shader(color: str, channels: int = 1) -> str:
    """`color` where the value is not 0, clear elsewhere."""
    return _program(
        [_color_control(color), *_channel_control(channels)],
        [
            f"if (float(toRaw({_value(channels)})) != 0.0) emitRGB(color);",
            "else emitTransparent();",
        ],
    )


def _range_control(display_range: Range) -> str:
    low, high = display_range
    return f"#uicontrol invlerp normalized(range=[{_number(low)}, {_number(high)}])"


def _color_control(color: str) -> str:
    return f'#uicontrol vec3 color color(default="{color.lower()}")'


def _channel_control(channels: int) -> list[str]:
    return [] if channels == 1 else [f"#uicontrol int channel slider(min=0, max={channels - 1}, default=0)"]


def _value(channels: int) -> str:
    return "getDataValue()" if channels == 1 else "getDataValue(channel)"


def _number(value: float) -> str:
    if not float(value).is_integer():
        return repr(float(value))
    # A JSON number in the browser is a double: larger whole numbers are exact as strings only.
    return str(int(value)) if abs(value) <= 2**53 else f'"{int(value)}"'


def _program(controls: list[str], body: list[str]) -> str:
    return "\n".join([*controls, "void main() {", *(f"  {line}" for line in body), "}", ""])
