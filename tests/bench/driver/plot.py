# SPDX-License-Identifier: MIT
"""Plots through gnuplot, as SVG next to the report. Without gnuplot there are none."""

import os
import shutil
import subprocess

HEAD = """set terminal svg size {size} font "sans-serif,13" background "white"
set output "{path}"
set title "{title}" noenhanced
set xlabel "{x}" noenhanced
set ylabel "{y}" noenhanced
set key outside right top noenhanced
set grid ytics lc rgb "#dddddd"
set tics noenhanced
set format "%g"
"""


def quoted(words):
    return '"' + str(words).replace('"', "'") + '"'


def block(name, lines):
    return f"${name} << EOD\n" + "\n".join(lines) + "\nEOD\n"


def cell(value):
    return "NaN" if value is None else repr(float(value))


class Lines:
    """name: of the file; series: [(title, [(x, y), ...]), ...]; more: commands of gnuplot"""

    size = "900,460"

    def __init__(self, name, title, x, y, series, log="", more=""):
        self.name, self.title, self.x, self.y = name, title, x, y
        self.series = [(t, points) for t, points in series if points]
        self.log = log
        self.more = more

    def script(self):
        out = f"set logscale {self.log}\n" if self.log else ""
        out += self.more
        for i, (_, points) in enumerate(self.series):
            out += block(f"d{i}", [f"{cell(x)} {cell(y)}" for x, y in points])
        parts = [
            f"$d{i} using 1:2 with linespoints lw 2 pt 7 ps 0.5 title {quoted(t)}"
            for i, (t, _) in enumerate(self.series)
        ]
        return out + "plot " + ", ".join(parts) + "\n" if parts else None


class Panels:
    """Several Lines in one picture, two in a row."""

    def __init__(self, name, title, panels):
        self.name, self.title, self.x, self.y = name, title, "", ""
        self.panels = [panel for panel in panels if panel.series]
        self.size = f"900,{60 + 300 * ((len(self.panels) + 1) // 2)}"

    def script(self):
        if not self.panels:
            return None
        rows = (len(self.panels) + 1) // 2
        out = f"set multiplot layout {rows},2 title {quoted(self.title)} noenhanced\n"
        for panel in self.panels:
            out += "unset logscale\nset yrange [*:*]\n"
            out += f"set title {quoted(panel.title)}\n"
            out += f"set xlabel {quoted(panel.x)}\nset ylabel {quoted(panel.y)}\n"
            out += panel.script()
        return out + "unset multiplot\n"


class Bars:
    """names: one group of bars each; series: [(title, [value or None, ...]), ...]"""

    size = "900,460"

    def __init__(self, name, title, y, names, series, log=False, line=None):
        self.name, self.title, self.x, self.y = name, title, "", y
        self.names, self.series, self.log, self.line = names, series, log, line

    def script(self):
        if not self.names or not self.series:
            return None
        out = "set style data histograms\nset style histogram clustered gap 1\n"
        out += "set style fill solid 0.9 border -1\nset xtics rotate by -35\n"
        if self.log:
            out += "set logscale y\n"
        else:
            out += "set yrange [0:*]\n"
        rows = []
        for i, name in enumerate(self.names):
            rows.append(" ".join([quoted(name)] + [cell(values[i]) for _, values in self.series]))
        out += block("d", rows)
        parts = [
            f"$d using {i + 2}:xtic(1) title {quoted(t)}" for i, (t, _) in enumerate(self.series)
        ]
        if self.line is not None:
            parts.append(f'{self.line} with lines dt 2 lc rgb "black" notitle')
        return out + "plot " + ", ".join(parts) + "\n"


def draw(plots, directory, log):
    """Writes NAME.svg for each; returns [(title, name of the file)] of those written."""
    gnuplot = shutil.which("gnuplot")
    drawn = []
    if not gnuplot:
        print("bench: no plots: gnuplot is not installed (package gnuplot-nox)", file=log)
        return drawn
    for plot in plots:
        script = plot.script()
        if not script:
            continue
        file = f"{plot.name}.svg"
        head = HEAD.format(
            path=os.path.join(directory, file),
            size=plot.size,
            title=plot.title,
            x=plot.x,
            y=plot.y,
        )
        done = subprocess.run(
            [gnuplot, "-"], input=head + script, capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(f"bench: gnuplot: {plot.name}: {done.stderr.strip()}", file=log)
        else:
            drawn.append((plot.title, file))
    return drawn
