"""``skpref shares``: the shares of products that compete, by a saved model of choices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skpref.cli.files import complete_rows, read_sheet, say_note
from skpref.cli.ids import read_ids, read_levels, refuse_repeated
from skpref.cli.options import Shares
from skpref.cli.output import check_file
from skpref.cli.report import deliver, titled_table
from skpref.data.choices import NONE
from skpref.data.columns import Columns, listed
from skpref.data.ids import objects
from skpref.exceptions import DataError
from skpref.gp.crowd import CrowdGPPL
from skpref.persistence import load

if TYPE_CHECKING:
    Scenarios = dict[str, dict[Any, Any]]  # names of products, and their attributes or ids, by scenario


def shares(options: Shares) -> int:
    """Predict the shares of the products of a file."""
    check_file(options.out, options.model, options.products)
    model = load(options.model)
    if not isinstance(model, CrowdGPPL) or not model._has_tasks:  # noqa: SLF001 - of this package
        how = "as `skpref fit --model crowd` does with choices and rankings; this model is of another kind"
        raise DataError(f"{options.model}: shares are for a CrowdGPPL that was fitted to tasks, {how}")
    names = model._titles()  # noqa: SLF001 - of this package
    if options.none and NONE not in (names or model.item_ids_.tolist()):
        raise DataError(f"{options.model}: --none needs the answer 'none' in the data of the model, which have none")
    sheet = read_sheet(options.products, options)
    used = {*(name.partition("=")[0] for name in names), sheet.usual("id", "product"), sheet.usual("scenario")}
    unused = [name for name in sheet.names if name not in used]
    if unused:
        say_note(f"not used: {listed(unused)}")
    if model.groups or model.context:
        say_note("shares are for the consensus of all groups, at the mean context; `skpref predict` knows both")
    if model.covariate_names_.size:
        say_note(f"shares are for products that do not differ in {', '.join(model.covariate_names_.tolist())}")
    scenarios: Scenarios = complete_rows(sheet, lambda part: _scenarios(part, model, names), options.missing)
    asked = {"none": options.none, "rule": options.rule, "credibility": options.credibility}
    try:
        frame = model.shares(list(scenarios.values()), **asked)
    except DataError as error:
        raise DataError(f"{options.products}: {error}") from error
    columns: dict[str, list[Any]] = {name: frame[name].tolist() for name in frame if name != "scenario"}
    if set(scenarios) != {""}:
        own = [name for name, products in scenarios.items() for _ in range(len(products) + options.none)]
        columns = {"scenario": own} | columns
    title = f"Shares of products, the average over {model.user_ids_.size} people"
    forms = {name: f"{{{name}}}" for name in columns if name in {"scenario", "product"}}
    interval = {f"{100 * options.credibility:g} % interval": "{share_low:.4f} - {share_high:.4f}"}
    forms |= {"share ± std": "{share:.4f} ± {std:.4f}"} | interval
    return deliver(options, columns, titled_table(title, forms, columns))


def _scenarios(sheet: Columns, model: CrowdGPPL, names: list[str]) -> Scenarios:
    """Return the products of each scenario, by attributes where the model has some, or else by ids."""
    attributes = list(dict.fromkeys(name.partition("=")[0] for name in names if name != NONE))
    column: str | None = sheet.usual("id", "product")
    products: list[Any]
    if attributes:
        sheet.require(attributes, f"{sheet.source} needs the attributes of the model: {', '.join(attributes)}")
        levels = {name: [own.partition("=")[2] for own in names if own.startswith(f"{name}=")] for name in attributes}
        cells: dict[str, Any] = {
            name: sheet.numbers(name, meaning="an attribute") if name in names else read_levels(sheet, name, own)
            for name, own in levels.items()
        }
        products = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
        column = column if column in sheet.names and column not in attributes else None
        texts = zip(*map(sheet.texts, attributes), strict=True)
        profiles = [", ".join(map("=".join, zip(attributes, row, strict=True))) for row in texts]
        called = objects(profiles) if column is None else sheet.ids(column, "product")
    else:
        sheet.require((column,), "A file of products has a column id or product")
        called = read_ids(sheet, str(column), model.item_ids_, strict=True)
        products = called.tolist()
    scenario = sheet.usual("scenario")
    several = scenario in sheet.names and scenario not in attributes
    rows: dict[str, list[int]] = {}
    for row, group in enumerate(sheet.ids(scenario, "scenario").tolist() if several else [""] * sheet.size):
        rows.setdefault(group, []).append(row)
    for own in rows.values():
        refuse_repeated(sheet.take(own), called[own], column, "product")
    return {group: {called[row]: products[row] for row in own} for group, own in rows.items()}
