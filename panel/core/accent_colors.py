"""Accent colors that can be read: variants of a color with enough contrast in both themes (WCAG 2.2)."""

import re
from dataclasses import dataclass
from functools import lru_cache

COLOR_PATTERN = re.compile(r"#[0-9a-f]{6}")
DEFAULT_ACCENT = "#1c5fd4"
TEXT_CONTRAST = 4.5
"""Of text and of buttons' labels (WCAG 1.4.3)."""
GRAPHICS_CONTRAST = 3.0
"""Of lines and areas that carry meaning (WCAG 1.4.11)."""
WHITE, BLACK = (255, 255, 255), (0, 0, 0)
LIGHT_BACKGROUND = (240, 242, 246)
"""At least as dark as any background of the light theme."""
DARK_BACKGROUND = (46, 50, 58)
"""At least as light as any background of the dark theme."""
STEPS = 64

Rgb = tuple[int, int, int]


@dataclass(frozen=True)
class AccentColors:
    """Variants of one color, as `#rrggbb`."""

    light: str
    """Text and buttons of the light theme."""
    dark: str
    """Lines and areas of the dark theme."""
    dark_text: str
    dark_button: str
    """Background of white text in the dark theme."""

    def to_css(self) -> str:
        """Return a style sheet that replaces the accent color of app.css."""
        return (
            f":root {{ --tblr-primary: {self.light}; --tblr-primary-rgb: {format_channels(self.light)};"
            f" --tblr-link-color: {self.light}; }}\n"
            f'[data-bs-theme="dark"] {{ --tblr-primary: {self.dark}; --tblr-primary-rgb: {format_channels(self.dark)};'
            f" --tblr-link-color: {self.dark_text}; --primary-button: {self.dark_button}; }}\n"
        )


@lru_cache(maxsize=256)
def compute_accent_colors(color: str) -> AccentColors:
    """Return the variants of a color `#rrggbb` that are nearest to it and have enough contrast."""
    rgb = parse_color(color)
    return AccentColors(
        light=format_color(adjust(rgb, LIGHT_BACKGROUND, TEXT_CONTRAST, BLACK)),
        dark=format_color(adjust(rgb, DARK_BACKGROUND, GRAPHICS_CONTRAST, WHITE)),
        dark_text=format_color(adjust(rgb, DARK_BACKGROUND, TEXT_CONTRAST, WHITE)),
        dark_button=format_color(adjust(rgb, WHITE, TEXT_CONTRAST, BLACK)),
    )


def adjust(color: Rgb, background: Rgb, minimum_contrast: float, target: Rgb) -> Rgb:
    """Return the color, mixed with as much of `target` as the contrast needs."""
    for step in range(STEPS):
        red, green, blue = (round(a + (b - a) * step / STEPS) for a, b in zip(color, target, strict=True))
        if compute_contrast((red, green, blue), background) >= minimum_contrast:
            return red, green, blue
    return target


def compute_contrast(first: Rgb, second: Rgb) -> float:
    """Return the contrast ratio of two colors, 1 to 21."""
    darker, lighter = sorted((compute_luminance(first), compute_luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def compute_luminance(color: Rgb) -> float:
    red, green, blue = ((c / 255 / 12.92) if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def parse_color(color: str) -> Rgb:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def format_color(color: Rgb) -> str:
    return "#{:02x}{:02x}{:02x}".format(*color)


def format_channels(color: str) -> str:
    return ", ".join(map(str, parse_color(color)))
