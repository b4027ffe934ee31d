"""The strings below the members of a class, which say what each of them is."""

import ast
import inspect
import textwrap


def member_docs(kind: type) -> dict[str, str]:
    """Return what the strings below the members of a class and its bases say, by the member's name.

    Members are fields, constants and members of an enum. Those without a string are left out. Raises
    OSError for a class whose source is not there.
    """
    docs: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        if not base.__module__.startswith(("aisrv", "phy", "flash_server", "host_tools", "docs", "tests")):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        definition = next(each for each in tree.body if isinstance(each, ast.ClassDef))
        for member, after in zip(definition.body, definition.body[1:], strict=False):
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                docs |= dict.fromkeys(_names(member), inspect.cleandoc(str(after.value.value)))
    return docs


def _names(member: ast.stmt) -> list[str]:
    targets = member.targets if isinstance(member, ast.Assign) else [getattr(member, "target", None)]
    return [each.id for each in targets if isinstance(each, ast.Name)]
