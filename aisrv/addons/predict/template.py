"""Pages and drawings from templates, by Jinja2."""

from typing import Any


def render(package: str, template: str, **values: Any) -> str:  # noqa: ANN401 - whatever a template shows
    """Render a template of a package's folder `templates`; all is escaped, an unknown name is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(values)
