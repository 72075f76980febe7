# SPDX-License-Identifier: MIT
"""Tables and goals, as text and as HTML."""

import html


def text(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"


def mib(kib):
    return text(None if kib is None else kib / 1024, 1)


def mib2(kib):
    return text(None if kib is None else kib / 1024, 2)


class Table:
    """A title, a row of heads, rows of text cells, and remarks."""

    def __init__(self, title, head, rows, notes=()):
        self.title = title
        self.head = head
        self.rows = rows
        self.notes = list(notes)

    def print(self, out):
        lines = [self.head] + self.rows
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.head))]
        print(self.title, file=out)
        for line in lines:
            cells = [line[0].ljust(widths[0])]
            cells += [c.rjust(w) for c, w in zip(line[1:], widths[1:])]
            print("  " + "  ".join(cells).rstrip(), file=out)
        for note in self.notes:
            print(f"  {note}", file=out)
        print(file=out)

    def html(self, out):
        def row(tag, cells):
            inner = "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells)
            print(f"<tr>{inner}</tr>", file=out)

        print(f"<h3>{html.escape(self.title)}</h3>\n<table>", file=out)
        row("th", self.head)
        for cells in self.rows:
            row("td", cells)
        print("</table>", file=out)
        for note in self.notes:
            print(f"<p>{html.escape(note)}</p>", file=out)


class Goals:
    """The goals, and whether each was reached. They do not affect the exit status."""

    def __init__(self):
        self.rows = []

    def at_least(self, what, value, low, digits=2):
        if value is not None:
            self.rows.append((what, text(value, digits), f"at least {low}", value >= low))

    def at_most(self, what, value, high, digits=2):
        if value is not None:
            self.rows.append((what, text(value, digits), f"at most {high}", value <= high))

    def add(self, what, measured, wanted, reached):
        self.rows.append((what, measured, wanted, reached))

    def table(self):
        rows = [[what, m, w, "reached" if ok else "MISSED"] for what, m, w, ok in self.rows]
        return Table("goals", ["", "measured", "wanted", ""], rows)

    def json(self):
        return [
            {"what": what, "measured": measured, "wanted": wanted, "reached": ok}
            for what, measured, wanted, ok in self.rows
        ]
