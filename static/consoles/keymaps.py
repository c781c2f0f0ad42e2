"""Writes keymaps.json: what each key of the panel's 33 keyboard layouts gives, taken from Debian's xkb-data.

Run it with `python static/consoles/keymaps.py`; it needs the packages libxkbcommon0 and xkb-data. The result is
committed, so only who adds a layout or wants a newer xkb-data runs it.

    {"de": {"KeyQ": "qQ@Ω", …}, …}

A key is named as KeyboardEvent.code does. Its four characters are what it gives alone, with Shift, with AltGr and with
both. A space stands for nothing; a combining character for a dead key, which puts that mark onto the next letter.
"""

import ctypes
import json
import unicodedata
from pathlib import Path

from panel.schemas.constants import KEYMAPS

XKB_LAYOUT_NAMES = {
    "ar": "ara", "da": "dk", "de-ch": "ch(de)", "en-gb": "gb", "en-us": "us", "et": "ee", "fr-be": "be",
    "fr-ca": "ca", "fr-ch": "ch(fr)", "ja": "jp", "pt-br": "br", "sl": "si", "sv": "se",
}  # fmt: skip
"""XKB's name where it is another one."""

CODES_BY_FIRST_XKB_NUMBER = {
    10: [f"Digit{n}" for n in "1234567890"] + ["Minus", "Equal"],
    24: [f"Key{c}" for c in "QWERTYUIOP"] + ["BracketLeft", "BracketRight"],
    38: [f"Key{c}" for c in "ASDFGHJKL"] + ["Semicolon", "Quote", "Backquote"],
    51: ["Backslash", *(f"Key{c}" for c in "ZXCVBNM"), "Comma", "Period", "Slash"],
    94: ["IntlBackslash"],
    97: ["IntlRo"],
    132: ["IntlYen"],
}
"""Keys by XKB's number of the row's first."""

COMBINING_CHARACTERS = {
    "grave": 0x300, "acute": 0x301, "circumflex": 0x302, "tilde": 0x303, "macron": 0x304, "breve": 0x306,
    "abovedot": 0x307, "diaeresis": 0x308, "hook": 0x309, "abovering": 0x30A, "doubleacute": 0x30B, "caron": 0x30C,
    "horn": 0x31B, "belowdot": 0x323, "cedilla": 0x327, "ogonek": 0x328,
}  # fmt: skip
"""Combining characters of the dead keys."""

WINDOWS_KEYS = {
    "cz": {
        "@": "KeyV", "#": "KeyX", "$": "Semicolon", "&": "KeyC", "*": "Slash", "{": "KeyB", "}": "KeyN", "[": "KeyF",
        "]": "KeyG", "\\": "KeyQ",
    },
    "de-ch": {"|": "Digit7", "]": "BracketRight", "}": "Backslash"},
    "en-gb": {"|": "IntlBackslash"},
    "es": {"{": "Quote", "[": "BracketLeft", "]": "BracketRight", "}": "Backslash", "\\": "Backquote"},
    "et": {"|": "IntlBackslash"},
    "fr-be": {"{": "Digit9", "[": "BracketLeft", "\\": "IntlBackslash"},
    "fr-ch": {"|": "Digit7", "]": "BracketRight", "}": "Backslash"},
    "is": {"|": "IntlBackslash"},
    "it": {"[": "BracketLeft", "]": "BracketRight", "{": "BracketLeft", "}": "BracketRight", "@": "Semicolon"},
    "ja": {"~": "Equal"},
}  # fmt: skip
"""Where XKB knows several keys for a character, and Windows only one of them: that one."""

xkb = ctypes.CDLL("libxkbcommon.so.0")
for name in ("xkb_context_new", "xkb_keymap_new_from_names", "xkb_state_new"):
    getattr(xkb, name).restype = ctypes.c_void_p


class RuleNames(ctypes.Structure):
    _fields_ = [(field, ctypes.c_char_p) for field in ("rules", "model", "layout", "variant", "options")]


def build_layout(name):
    """Return the characters of each key by its code."""
    layout, _, variant = XKB_LAYOUT_NAMES.get(name, name).rstrip(")").partition("(")
    rule_names = RuleNames(b"evdev", b"pc105", layout.encode(), variant.encode(), b"")
    context = ctypes.c_void_p(xkb.xkb_context_new(0))
    keymap = ctypes.c_void_p(xkb.xkb_keymap_new_from_names(context, ctypes.byref(rule_names), 0))
    if not keymap:
        raise SystemExit(f"xkb-data has no layout for {name}.")
    state = ctypes.c_void_p(xkb.xkb_state_new(keymap))
    shift, alt_gr = (1 << xkb.xkb_keymap_mod_get_index(keymap, modifier) for modifier in (b"Shift", b"Mod5"))
    keys = {}
    for first, codes in CODES_BY_FIRST_XKB_NUMBER.items():
        for number, code in enumerate(codes, first):
            characters = ""
            for modifiers in (0, shift, alt_gr, shift | alt_gr):
                xkb.xkb_state_update_mask(state, modifiers, 0, 0, 0, 0, 0)
                characters += get_character(xkb.xkb_state_key_get_one_sym(state, number))
            keys[code] = blank_duplicates(characters)
    for character, windows_code in WINDOWS_KEYS.get(name, {}).items():
        assert character in keys[windows_code], (name, character)
        keys |= {
            code: characters.replace(character, " ").rstrip()
            for code, characters in keys.items()
            if code != windows_code
        }
    return {code: characters for code, characters in keys.items() if characters}


def get_character(keysym):
    """Return the character that a key symbol types: a combining one for a dead key, a space for none."""
    buffer = ctypes.create_string_buffer(64)
    xkb.xkb_keysym_get_name(keysym, buffer, 64)
    name = buffer.value.decode()
    if name.startswith("dead_"):
        return chr(COMBINING_CHARACTERS.get(name.removeprefix("dead_"), 0x20))
    code_point = xkb.xkb_keysym_to_utf32(keysym)
    character = chr(code_point)
    return character if code_point and not unicodedata.category(character).startswith(("C", "Z")) else " "


def blank_duplicates(characters):
    """Replace each character that is also typed with fewer modifiers by a space."""
    return "".join(
        " " if character in characters[:level] else character for level, character in enumerate(characters)
    ).rstrip()


if __name__ == "__main__":
    lines = (f"{json.dumps(name)}:{json.dumps(build_layout(name), separators=(',', ':'))}" for name in KEYMAPS)
    Path(__file__).with_name("keymaps.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="ascii")
