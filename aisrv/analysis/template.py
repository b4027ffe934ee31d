"""Pages and drawings from the templates beside this module, by Jinja2."""

from typing import Any


def render(template: str, **values: Any) -> str:  # noqa: ANN401 - whatever a template shows
    """Render a template with values; everything in it is escaped, and an unknown name is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(values)
