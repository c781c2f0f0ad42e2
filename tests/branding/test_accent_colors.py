"""Accent colors: every one becomes readable, and one that is readable stays."""

import itertools

from panel.core.accent_colors import (
    DARK_BACKGROUND,
    LIGHT_BACKGROUND,
    WHITE,
    compute_accent_colors,
    compute_contrast,
    parse_color,
)


def test_text_and_buttons_have_contrast():
    for channels in itertools.product((0, 64, 128, 192, 255), repeat=3):
        colors = compute_accent_colors("#{:02x}{:02x}{:02x}".format(*channels))
        pairs = (
            (colors.light, LIGHT_BACKGROUND, 4.5),
            (colors.light, WHITE, 4.5),
            (colors.dark_text, DARK_BACKGROUND, 4.5),
            (colors.dark_button, WHITE, 4.5),
            (colors.dark, DARK_BACKGROUND, 3),
        )
        for color, background, minimum in pairs:
            assert compute_contrast(parse_color(color), background) >= minimum, (channels, color)


def test_known_contrasts():
    assert compute_contrast((0, 0, 0), WHITE) == 21
    assert round(compute_contrast((0x76, 0x76, 0x76), WHITE), 2) == 4.54


def test_readable_color_stays():
    assert compute_accent_colors("#0a5c38").light == "#0a5c38"
