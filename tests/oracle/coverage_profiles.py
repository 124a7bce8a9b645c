"""Which columns really hold something: over profiles that together have all activity that the simulator can make."""

import duckdb

import profiles
from profiles import Cell

# Together these show whatever kymo fills. A part that fills a table adds the cell that makes it.
CELLS = (
    Cell("mlp", "trn2", 2, "coverage", executions=2),
    Cell("attention", "trn2", 2, "coverage", executions=1),
    Cell("mlp", "trn1", 1, "coverage", executions=2),
    Cell("attention", "trn1", 1, "coverage-lost", executions=40, options=("--buffer", "INSTRUCTION=1")),
    Cell("attention", "trn3", 2, "coverage-no-dge", executions=1, dge=0, small=True),
    Cell("attention", "trn2", 1, "nki", executions=1, small=True),
    Cell("mlp", "trn2", 1, "coverage-old", executions=1, options=("--driver", "2.30.9"), small=True),
)


def make(directory):
    """All of the profiles' directories."""
    made = []
    for k, cell in enumerate(CELLS):
        (directory / str(k)).mkdir()
        made.append(profiles.make_tables(directory / str(k), cell, "--name", f"profile-{k}")[0])
    return made


def says_something(column, kind, empty):
    """SQL: a value that is neither null nor what a required column holds for lack of inputs."""
    if kind.endswith("[]"):
        return f'len("{column}") > 0'
    if kind == "VARCHAR":
        return f"\"{column}\" NOT IN ('', '{empty}')" if empty else f"\"{column}\" <> ''"
    if kind == "BOOLEAN":
        return f'"{column}" IS NOT NULL'
    return f'"{column}" <> {empty}' if empty not in ("", "[]") else f'"{column}" IS NOT NULL'


def columns_that_say_something(directories, empties):
    """{"Table.column"}; empties: "Table.column" to the schema's empty value, "" where it is optional."""
    found = set()
    for directory in directories:
        for path in sorted(directory.glob("*.parquet")):
            table = path.stem
            with duckdb.connect() as db:
                kinds = {name: kind for name, kind, *_ in db.sql(f"DESCRIBE SELECT * FROM '{path}'").fetchall()}
                tests = [f"bool_or({says_something(c, k, empties.get(f'{table}.{c}', ''))})" for c, k in kinds.items()]
                answers = db.sql(f"SELECT {', '.join(tests)} FROM '{path}'").fetchone()
            found |= {f"{table}.{c}" for c, answer in zip(kinds, answers) if answer}
    return found
