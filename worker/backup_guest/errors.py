"""Why a request is refused: codes that the panel knows."""

NOT_FOUND, NOT_A_FOLDER, NOT_A_FILE, IS_A_LINK = "not_found", "not_a_folder", "not_a_file", "is_a_link"
UNREADABLE, TOO_LARGE = "unreadable", "too_large"
"""The file system is damaged at this place. More than the caller accepts."""


class Refused(Exception):
    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code
