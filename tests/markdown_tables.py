"""Reads the tables of pages in Markdown."""


def cells(page):
    """Returns the rows of a page's only table, without its head."""
    lines = [x for x in page.splitlines() if x.startswith("| ")]
    rows = [[cell.strip() for cell in x.strip("|").split("|")] for x in lines]
    return rows[2:]
