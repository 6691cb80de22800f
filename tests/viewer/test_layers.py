"""Layers as the JSON that Neuroglancer gets, letter by letter, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chunkloom.errors import ParameterError
from chunkloom.viewer.layers import LayerSpec, fitting_scale, layer, prediction_layer, raw_layer, show

EM = LayerSpec(
    name="em",
    url="http://127.0.0.1:8000/em/zarr3",
    kind="image",
    voxel_size_nm=(16, 8, 8),
    corner_nm=(-4, 100, 37.5),
    shape=(100, 200, 300),
    dtype="uint8",
    display_range=(20, 240),
)
PREDICTION = LayerSpec(
    name="mito",
    url="http://127.0.0.1:8000/mito/zarr3",
    kind="image",
    voxel_size_nm=(10.48, 8, 8),
    corner_nm=(0, 0, 0),
    shape=(3, 100, 200, 300),
    dtype="float32",
    color="#FF8800",
    opacity=0.5,
    channel_axes=("c",),
)
LABELS = replace(EM, name="cells", url="http://127.0.0.1:8000/cells/zarr2/", kind="labels", dtype="int64", opacity=0.4)
MASK = replace(EM, name="nuclei", url="http://127.0.0.1:8000/nuclei/zarr", kind="mask", color="#00ff00", opacity=0.5)


def test_raw_layer_is_grey_over_its_range():
    assert layer(EM).to_json() == {
        "type": "image",
        "source": [{"url": "http://127.0.0.1:8000/em/zarr3/|zarr3:"}],
        "shader": "#uicontrol invlerp normalized(range=[20, 240])\n"
        "void main() {\n"
        "  emitGrayscale(normalized(getDataValue()));\n"
        "}\n",
        "opacity": 1.0,
    }


def test_prediction_layer_has_colour_range_and_channel_controls_and_its_channels_at_hand():
    dimensions = {"z": [1.048e-08, "m"], "y": [8e-09, "m"], "x": [8e-09, "m"]}
    assert layer(PREDICTION).to_json() == {
        "type": "image",
        "source": [
            {
                "url": "http://127.0.0.1:8000/mito/zarr3/|zarr3:",
                "transform": {
                    "outputDimensions": {"c^": [1.0, ""], **dimensions},
                    "inputDimensions": {"c'": [1.0, ""], **dimensions},
                    "matrix": [[1, 0, 0, 0, 0.5], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0]],
                },
            }
        ],
        "shader": "#uicontrol invlerp normalized(range=[0, 1])\n"
        '#uicontrol vec3 color color(default="#ff8800")\n'
        "#uicontrol int channel slider(min=0, max=2, default=0)\n"
        "void main() {\n"
        "  emitRGBA(vec4(color, normalized(getDataValue(channel))));\n"
        "}\n",
        "opacity": 0.5,
    }


def test_mask_layer_is_coloured_where_not_0():
    assert layer(MASK).to_json() == {
        "type": "image",
        "source": [{"url": "http://127.0.0.1:8000/nuclei/zarr/|zarr2:"}],
        "shader": '#uicontrol vec3 color color(default="#00ff00")\n'
        "void main() {\n"
        "  if (float(toRaw(getDataValue())) != 0.0) emitRGB(color);\n"
        "  else emitTransparent();\n"
        "}\n",
        "opacity": 0.5,
    }


def test_labels_layer_is_a_segmentation():
    assert layer(LABELS).to_json() == {
        "type": "segmentation",
        "source": [{"url": "http://127.0.0.1:8000/cells/zarr2/|zarr2:"}],
        "selectedAlpha": 0.4,
    }


def test_prediction_without_colour_gets_the_first_of_the_palette():
    assert 'color(default="#ff4d4d")' in prediction_layer(EM).shader


def test_blend_is_written_where_it_is_not_the_default():
    assert raw_layer(replace(EM, blend="additive")).to_json()["blend"] == "additive"


@pytest.mark.parametrize(
    ("dtype", "display_range", "written"),
    [
        pytest.param("uint8", None, "[0, 255]", id="all of uint8"),
        pytest.param("int16", None, "[-32768, 32767]", id="all of int16"),
        pytest.param("float32", None, "[0, 1]", id="float"),
        pytest.param("float32", (-0.25, 1e-7), "[-0.25, 1e-07]", id="float range"),
        pytest.param("uint8", (10.5, 20.5), "[10, 21]", id="whole numbers outwards"),
        pytest.param("uint8", (-5, 300), "[0, 255]", id="within the dtype"),
        pytest.param("uint64", None, '[0, "18446744073709551615"]', id="beyond doubles as a string"),
    ],
)
def test_range_is_written_as_neuroglancer_takes_it(dtype, display_range, written):
    spec = replace(EM, dtype=dtype, display_range=display_range)
    assert f"normalized(range={written})" in raw_layer(spec).shader


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"dtype": "float64"}, "cannot show float64: serve the volume cast", id="float64"),
        pytest.param({"dtype": "bool", "kind": "mask"}, "cannot show bool", id="bool"),
        pytest.param({"dtype": "int64"}, "cannot show int64", id="int64 image"),
        pytest.param({"dtype": "int64", "kind": "labels"}, "give the zarr2 address", id="int64 labels of zarr3"),
        pytest.param({"dtype": "float32", "kind": "labels"}, "labels are whole numbers", id="float labels"),
        pytest.param({"dtype": "uint64", "kind": "mask"}, "show it as labels", id="64-bit mask"),
        pytest.param({"kind": "picture"}, "unknown kind 'picture'", id="kind"),
        pytest.param({"shape": (2, 9, 9, 9)}, "does not fit channel axes", id="channel axis without a name"),
        pytest.param({"shape": (2, 2, 9, 9, 9), "channel_axes": ("t", "c")}, "at most one", id="two channel axes"),
        pytest.param({"color": "red"}, "not of the form #rrggbb", id="colour"),
        pytest.param({"opacity": 1.5}, "not between 0 and 1", id="opacity"),
        pytest.param({"display_range": (5, 5)}, "expected low < high", id="range"),
        pytest.param({"url": "http://127.0.0.1:8000/em"}, "FORMAT one of", id="address without a format"),
        pytest.param({"url": "/data/em.zarr/zarr3"}, "expected http://", id="path"),
    ],
)
def test_what_cannot_be_shown_is_refused(change: dict[str, Any], message):
    with pytest.raises(ParameterError, match=message):
        replace(EM, **change)


def test_fitting_scale_is_that_of_the_tightest_panel():
    # x: 2400 nm in 560 pixels, y: 1600 nm in 330, z: 1600 nm in 560 and in 330; in voxels of 8 nm.
    assert fitting_scale(EM) == pytest.approx(1600 / 330 / 8)


def test_show_sets_the_whole_view(viewer):
    show(viewer, [EM, replace(LABELS, visible=False)])
    state = viewer.state.to_json()
    assert [(entry["name"], entry.get("visible", True)) for entry in state.pop("layers")] == [
        ("em", True),
        ("cells", False),
    ]
    assert state == {
        "dimensions": {"x": [8e-09, "m"], "y": [8e-09, "m"], "z": [1.6e-08, "m"]},
        "position": [154.6875, 112.5, 49.75],
        "crossSectionScale": pytest.approx(1600 / 330 / 8),
        "projectionScale": 450.0,
        "layout": "4panel",
    }


def test_show_takes_a_position_in_nm_z_y_x(viewer):
    show(viewer, [EM], position_nm=(16, 80, 800))
    assert list(viewer.state.position) == [100, 10, 1]


def test_show_replaces_the_layers_that_were_there(viewer):
    show(viewer, [EM, LABELS])
    show(viewer, [MASK])
    assert [entry.name for entry in viewer.state.layers] == ["nuclei"]


@pytest.mark.parametrize(
    ("layers", "message"),
    [pytest.param([], "nothing to show", id="none"), pytest.param([EM, EM], "must differ", id="one name twice")],
)
def test_show_refuses(viewer, layers, message):
    with pytest.raises(ParameterError, match=message):
        show(viewer, layers)


@pytest.mark.parametrize(
    ("word", "corner_nm", "shift"),
    [
        ("n5", (-4, 100, 37.5), [4.6875, 12.5, -0.25]),
        ("n5", (0, 0, 0), None),
        ("precomputed", (-4, 100, 37.5), [0.6875, 0.5, 0.75]),
        ("precomputed", (-32, 104, 40), None),
    ],
)
@pytest.mark.parametrize("kind", ["image", "labels"])
def test_what_a_format_does_not_hold_of_the_corner_is_in_a_transform(word, corner_nm, shift, kind):
    spec = replace(EM, url=f"http://127.0.0.1:8000/em/{word}", corner_nm=corner_nm, kind=kind)
    (source,) = layer(spec).to_json()["source"]
    assert source["url"].endswith({"n5": "|n5:", "precomputed": "|neuroglancer-precomputed:"}[word])
    matrix = source.get("transform", {}).get("matrix")
    assert (None if matrix is None else [row[3] for row in matrix]) == shift


def test_channels_are_shown_from_zarr():
    with pytest.raises(ParameterError, match="zarr3 address"):
        layer(replace(PREDICTION, url="http://127.0.0.1:8000/mito/n5"))
