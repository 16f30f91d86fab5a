"""The package with one call left out: the sites, found by code, and the import that skips one.

Definitions. A *site* is an expression in the modules that store things (SUBJECTS). It is a

 sync        a call that makes something durable, directly or through one of our own functions:
             a callee named in SYNCS, or the PRAGMA that turns SQLite's own syncs on.
             Skipped: the call is not made (`settle()`, which also answers, becomes `size()`).
 lock        a call that keeps others out: a callee named in LOCKS.
             Skipped: nobody is kept out, and whoever asks is told that he has it.
 check       a call that only refuses: a callee named in CHECKS, as a statement of its own.
             Skipped: nothing is refused.
 question    a call whose answer decides whether something is relied upon: a callee in QUESTIONS.
             Skipped: the answer is the one that lets go on.
 comparison  `==` or `!=` between digests, chains or checksums (a name in COMPARED on either side).
             Skipped: they are equal.
 flag        an `os.O_…` of FLAGS in the call that opens. Skipped: it is not given.

Not sites: checks of a caller's arguments and of use after close (API, not storage), cancel flags,
what only macOS does (F_FULLFSYNC), the media in memory, and the asynchronous face of sessions,
whose `settle` writes queued events.

A site's id is "module function callee#n": the n-th such expression of that function. So ids stay
the same when lines move.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Self

PACKAGE = Path(__file__).parents[2] / "attachstore"
SUBJECTS = (
    "disk",
    "lock",
    "layout",
    "opening",
    "promise",
    "confinement",
    "attach",
    "supply",
    "objects",
    "sessions",
    "replay",
    "conversion",
    "integrity/checking",
    "integrity/checkpoint",
    "integrity/mending",
)
_EXEMPT = frozenset({"objects/memory.py", "sessions/memory.py", "sessions/sessions.py"})

SYNCS = frozenset(
    {
        "fsync",
        "fdatasync",
        "_full_sync",
        "sync",
        "sync_file",
        "sync_data",
        "sync_directory",
        "_sync_directory",
        "sync_object",
        "settle",
        "drop_cache",
        "posix_fadvise",
    }
)
LOCKS = frozenset({"lock", "flock", "_exclusive", "claim", "take_claim", "acquire"})
CHECKS = frozenset(
    {
        "check",
        "check_regular",
        "raise_damage",
        "refuse_foreign",
        "refuse_gone",
        "refuse_inside",
        "_refuse_inside",
        "confirm",
        "_confirm",
        "_check_end",
        "_check_shard",
        "_check_writable",
        "_check_usable",
        "_check_there",
        "_check_owner",
        "_check_format",
        "_insist_on_durability",
    }
)
QUESTIONS = frozenset(
    {
        "leads_to",
        "is_regular",
        "is_named",
        "is_still_named",
        "is_settled",
        "confirm",
        "_locked",
        "is_idle",
    }
)
COMPARED = frozenset({"digest", "chain", "check", "checksum", "fingerprint", "proven_raw"})
FLAGS = frozenset({"O_EXCL", "O_NOFOLLOW"})

PROBE = "probe"
SITE_VARIABLE = "ATTACHSTORE_SKIPPED_SITE"
REACHED_VARIABLE = "ATTACHSTORE_SITES_REACHED"
"""Environment variables: what to leave out, and where to write what a test comes by
(mutation_plugin.py)."""

hits: set[str] = set()


@dataclass(frozen=True, slots=True)
class Site:
    """One call that can be left out."""

    id: str
    kind: str
    module: str
    line: int
    text: str


def sites() -> list[Site]:
    """Every site of the package, in the order of files and lines."""
    return [site for path in _files() for site in _sites_of(path)]


def install(site_id: str) -> None:
    """From now on the package is imported without that call. It must not be imported yet.

    With PROBE nothing is left out, and `hits` gets the id of each site that is reached.
    """
    assert "attachstore" not in sys.modules, "the package is imported already"
    sys.meta_path.insert(0, _Finder(site_id))


def hit(site_id: str) -> None:
    """What a probed site calls first."""
    hits.add(site_id)


def _files() -> Iterator[Path]:
    for subject in SUBJECTS:
        paths = [PACKAGE / f"{subject}.py"] if (PACKAGE / f"{subject}.py").exists() else []
        paths += sorted((PACKAGE / subject).rglob("*.py"))
        yield from (it for it in paths if str(it.relative_to(PACKAGE)) not in _EXEMPT)


def _sites_of(path: Path) -> list[Site]:
    visitor = _Sites(str(path.relative_to(PACKAGE)))
    visitor.visit(ast.parse(path.read_text(encoding="utf-8")))
    return visitor.found


class _Sites(ast.NodeTransformer):
    """Lists the sites of a module, and takes out the one with the id `skip`."""

    def __init__(self, module: str, skip: str | None = None) -> None:
        self.found: list[Site] = []
        self.skipped = False
        self._module = module
        self._skip = skip
        self._scope: list[str] = []
        self._counts: Counter[str] = Counter()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._within(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._within(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._within(node)

    def _within(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> ast.AST:
        self._scope.append(node.name)
        self.generic_visit(node)
        self._scope.pop()
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """A statement: what it answers is not used."""
        call = node.value
        if isinstance(call, ast.Call):
            name = _callee(call)
            if kind := _kind_of_statement(name, call):
                self.generic_visit(call)
                return ast.Expr(self._site(kind, name, call, ast.Constant(None)))
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call whose answer is used."""
        self.generic_visit(node)
        name = _callee(node)
        if name == "settle" and isinstance(node.func, ast.Attribute):
            instead = ast.Call(ast.Attribute(node.func.value, "size", ast.Load()), [], [])
            return self._site("sync", name, node, instead)
        if name in LOCKS:
            return self._site("lock", name, node, _stand_in("Unlocked()"))
        if name in QUESTIONS:
            return self._site("question", name, node, ast.Constant(True))
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        sides = (node.left, *node.comparators)
        if isinstance(node.ops[0], ast.Eq | ast.NotEq) and any(map(_is_compared, sides)):
            equal = isinstance(node.ops[0], ast.Eq)
            return self._site("comparison", "compare", node, ast.Constant(equal))
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr in FLAGS:
            return self._site("flag", node.attr, node, ast.Constant(0))
        return node

    def _site(self, kind: str, name: str, node: ast.expr, instead: ast.expr) -> ast.expr:
        place = f"{self._module} {'.'.join(self._scope) or '<module>'} {name}"
        self._counts[place] += 1
        site_id = f"{place}#{self._counts[place]}"
        self.found.append(Site(site_id, kind, self._module, node.lineno, ast.unparse(node)))
        if self._skip == PROBE:
            report = _stand_in(f"hit({site_id!r})")
            return ast.Subscript(ast.Tuple([report, node], ast.Load()), ast.Constant(1), ast.Load())
        if site_id != self._skip:
            return node
        self.skipped = True
        return ast.copy_location(instead, node)


def _callee(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _kind_of_statement(name: str, call: ast.Call) -> str:
    if name in SYNCS or _is_sync_pragma(call):
        return "sync"
    if name in LOCKS:
        return "lock"
    return "check" if name in CHECKS and not _is_cancel(call) else ""


def _is_cancel(call: ast.Call) -> bool:
    return any(name in ast.unparse(call.func) for name in ("cancel", "_stop"))


def _is_sync_pragma(call: ast.Call) -> bool:
    text = ast.unparse(call)
    return "PRAGMA synchronous" in text


def _is_compared(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in COMPARED or (isinstance(node, ast.Call) and _callee(node) in COMPARED)


def _stand_in(text: str) -> ast.expr:
    expression = ast.parse(f"__import__('tests.rigs.mutation', fromlist=['*']).{text}", mode="eval")
    return expression.body


class Unlocked:
    """What a skipped lock hands out: it keeps nobody out."""

    def release(self) -> None:
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, site_id: str) -> None:
        self._site_id = site_id

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith("attachstore"):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return None
        module = str(Path(spec.origin).relative_to(PACKAGE))
        if self._site_id != PROBE and self._site_id.split(" ")[0] != module:
            return None
        if self._site_id == PROBE and module not in {
            str(it.relative_to(PACKAGE)) for it in _files()
        }:
            return None
        spec.loader = _Loader(fullname, spec.origin, self._site_id)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the module without the site, and never from a cache."""

    def __init__(self, fullname: str, path: str, site_id: str) -> None:
        super().__init__(fullname, path)
        self._site_id = site_id

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path)
        mutant = _Sites(str(Path(self.path).relative_to(PACKAGE)), self._site_id)
        tree = ast.fix_missing_locations(mutant.visit(ast.parse(source)))
        assert mutant.skipped or self._site_id == PROBE, f"there is no site {self._site_id}"
        return compile(tree, self.path, "exec", dont_inherit=True)
