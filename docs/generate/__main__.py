"""Write all tables into the pages: `python -m docs.generate`, or `make reference`."""

from docs.generate.pages import PAGES, filled
from docs.generate.tables import TABLES


def main() -> None:
    """Rewrite the pages whose tables differ from the code, and name them."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        new = filled(text, TABLES)
        if new != text:
            page.write_text(new, encoding="utf-8")
            print(page)


if __name__ == "__main__":
    main()
