"""The codes of the errors in the code of the deployments, for the test of the page that lists them."""

import ast
from collections.abc import Iterator

from tests.pages import ROOT


def codes_of_errors() -> set[str]:
    """Return the codes that the deployments give to errors: of classes, as arguments, and in objects of errors."""
    trees = [ast.parse(path.read_text()) for path in (ROOT / "deployments").rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    constants = {
        node.target.id: node.value.value
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    places = dict(place for node in nodes for place in places_of_code(node))
    found: list[ast.expr] = []
    for node in nodes:
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            # Errors without a constructor of their own have that of the root.
            place = places.get(name, places["ApiError"] if name.endswith("Error") else None)
            found += [keyword.value for keyword in node.keywords if keyword.arg == "code"]
            found += [] if place is None else node.args[place : place + 1]
        elif isinstance(node, ast.Dict):
            keys = (key.value if isinstance(key, ast.Constant) else None for key in node.keys)
            found += [value for key, value in zip(keys, node.values, strict=True) if key == "code"]
        elif isinstance(node, ast.ClassDef):
            found += [one.value for one in node.body if isinstance(one, ast.Assign) and names_code(one.targets[0])]
    values = [
        one.value if isinstance(one, ast.Constant) else constants.get(getattr(one, "attr", getattr(one, "id", "")))
        for one in found
    ]
    return {value for value in values if isinstance(value, str)}


def places_of_code(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Return what is called with a code by position, and which position that is."""
    if isinstance(node, ast.ClassDef):
        for one in node.body:
            if isinstance(one, ast.FunctionDef) and one.name == "__init__":
                names = [argument.arg for argument in one.args.args[1:]]
                # A constructor that takes none has no place for one, either.
                yield node.name, names.index("code") if "code" in names else len(names)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        names = [argument.arg for argument in node.args.args if argument.arg != "self"]
        if "code" in names and node.name != "__init__":
            yield node.name, names.index("code")


def names_code(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id == "code"
