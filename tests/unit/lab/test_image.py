# SPDX-License-Identifier: Apache-2.0
"""The layers of the lab's image and their inputs, and the apt sources of the image."""

import contextlib
import dataclasses

import pytest

from gridstead_lab import image, inputs, names, sources
from gridstead_lab.errors import LabError

INPUTS = inputs.Inputs(
    sources=("deb http://mirror.example/debian trixie main",),
    apt_conf=(("99x", 'A "b";'),),
    packages=("acl", "curl"),
    locks=(("control.txt", "a==1 --hash=sha256:00\n"),),
)
DEB822 = """\
# a comment
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb deb-src
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main

Types: deb
URIs: http://other.example/off
Suites: bookworm
Enabled: no
"""


def _digests(layer_inputs):
    """Return the digest of each layer by its kind."""
    return {layer.kind: layer.digest for layer in image.layers(layer_inputs)}


@pytest.mark.parametrize(
    ("change", "changed_layers"),
    [
        (
            {"sources": ("deb http://other.example/debian trixie main",)},
            {"base", "packages", "wheels"},
        ),
        ({"apt_conf": ()}, {"base", "packages", "wheels"}),
        ({"packages": ("acl",)}, {"packages"}),
        ({"locks": (("control.txt", "a==2 --hash=sha256:11\n"),)}, {"wheels"}),
    ],
)
def test_a_changed_input_changes_only_the_layers_that_depend_on_it(change, changed_layers):
    digests_before = _digests(INPUTS)
    digests_after = _digests(dataclasses.replace(INPUTS, **change))

    layers = {layer for layer in digests_before if digests_before[layer] != digests_after[layer]}
    assert layers == changed_layers


def test_without_a_lock_file_there_is_no_wheelhouse():
    assert set(_digests(dataclasses.replace(INPUTS, locks=()))) == {"base", "packages"}


def test_a_plain_image_has_a_package_archive_instead_of_packages():
    """The archive contains the packages of the roles, downloaded but not installed."""
    plain_layers, prepared_layers = image.layers(INPUTS, plain=True), image.layers(INPUTS)

    assert [layer.kind for layer in plain_layers] == ["base", "archive", "wheels"]
    assert (plain_layers[0], plain_layers[2]) == (prepared_layers[0], prepared_layers[2])


def test_package_lists_may_have_comments_and_repetitions():
    assert inputs.read_packages("# all\nsudo\n\nacl  # used by x\nsudo\n") == ("acl", "sudo")


def test_sources_without_the_suite_of_the_machine_are_refused():
    with pytest.raises(LabError, match="names the suite noble"):
        sources.for_lab_suite([DEB822], "noble")


def test_both_formats_of_apt_sources_are_read_and_other_suites_are_ignored():
    one_line = (
        "deb [arch=amd64] http://mirror.example/debian bookworm main\n"
        "deb http://x.example cloud-bookworm main\n"
    )

    lab_sources = sources.for_lab_suite([DEB822, one_line], "bookworm")

    assert [line.split("] ")[1] for line in lab_sources] == [
        "http://mirror.example/debian trixie main",
        "http://mirror.example/debian trixie-updates main",
        "http://mirror.example/debian-security trixie-security main",
    ]


def test_a_source_with_a_mirror_list_uses_the_preferred_mirror_of_the_list(tmp_path):
    """Official cloud images have such sources. The image of the lab does not contain the list."""
    mirrors = tmp_path / "debian.list"
    mirrors.write_text("https://cdn.example/debian\n")
    source = (
        f"Types: deb deb-src\nURIs: mirror+file://{mirrors}\n"
        "Suites: trixie trixie-updates\nComponents: main\n"
    )

    lab_sources = sources.for_lab_suite([source], "trixie")

    assert [line.split("] ")[1] for line in lab_sources] == [
        "https://cdn.example/debian trixie main",
        "https://cdn.example/debian trixie-updates main",
    ]


def test_the_preferred_mirror_has_the_lowest_priority_number_and_all_types_of_files():
    mirror_list = (
        "# mirrors\n"
        "http://any.example/debian\n"
        "http://index.example/debian\tpriority:1 type:index\n"
        "http://second.example/debian\tpriority:2\n"
        "http://first.example/debian\tarch:amd64 priority:1 # near\n"
    )

    assert sources.preferred_mirror(mirror_list) == "http://first.example/debian"
    assert sources.preferred_mirror("http://a.example\nhttp://b.example\n") == "http://a.example"


@pytest.mark.parametrize(("text", "message"), [(None, "No such file"), ("# none\n", "no mirror")])
def test_a_mirror_list_that_names_no_mirror_is_refused(tmp_path, text, message):
    mirrors = tmp_path / "debian.list"
    if text is not None:
        mirrors.write_text(text)

    with pytest.raises(LabError, match=message) as error:
        sources.for_lab_suite([f"deb mirror+file:{mirrors} trixie main\n"], "trixie")

    assert str(mirrors) in error.value.hint


def test_sources_of_other_publishers_are_ignored():
    """Their packages do not exist in the suite of the lab, or their keys are not in the image."""
    foreign_sources = [
        "deb [signed-by=/etc/apt/keyrings/other.gpg] http://other.example bookworm main\n",
        "deb http://containers.example/debian bookworm stable\n",
        (
            "Types: deb\nURIs: http://inline.example\nSuites: bookworm\nComponents: main\n"
            "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDMEY865UxYJ\n"
        ),
    ]

    lab_sources = sources.for_lab_suite([DEB822, *foreign_sources], "bookworm")

    assert lab_sources == sources.for_lab_suite([DEB822], "bookworm")


def test_a_field_of_a_source_may_have_several_lines():
    source = "Types: deb\nURIs:\n http://a.example\n http://b.example\nSuites: trixie\n"

    lab_sources = sources.for_lab_suite([f"{source}Components: main\n"], "trixie")

    assert [line.split()[2] for line in lab_sources] == ["http://a.example", "http://b.example"]


def test_a_layer_is_retained_if_it_is_mounted_or_recent_or_among_the_last_three():
    last_used = {
        "packages-1": 0,
        "packages-2": 1,
        "packages-3": 2,
        "packages-4": 3,
        "packages-5": 4,
        "base-1": 0,
    }

    # Layers packages-2 and base-1 are mounted. The last argument is the current time. A layer is
    # recent for ten minutes.
    assert image.outdated(last_used, "lowerdir=/x/packages-2:/x/base-1", 10_000) == ["packages-1"]
    assert image.outdated(last_used, "", 500) == []


def test_wheels_of_a_plain_image_are_built_above_the_packages(tmp_path, monkeypatch):
    """The environment of the control plane needs python3-venv, which only the packages contain."""
    built_on = {}

    def build(layer, layers_below, _inputs, _names):
        built_on[layer.kind] = [below.kind for below in layers_below]
        layer.folder.mkdir()

    monkeypatch.setattr(image, "IMAGES", tmp_path)
    monkeypatch.setattr(image, "hold_mutex", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(image, "_build", build)
    lab_names = names.names(tmp_path, "test")

    layers = image.ensure(INPUTS, lab_names, print, plain=True)

    assert built_on == {
        "base": [],
        "packages": ["base"],
        "wheels": ["base", "packages"],
        "archive": ["base"],
    }
    assert [layer.kind for layer in layers] == ["base", "archive", "wheels"]
