#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""plot.py PROGRAM PAPERS.md: checks the messages of vip_perf_plot and its figures, by the objects of
matplotlib.

plot.json has parts of real reports, a few points of each.
"""
import functools
import importlib.machinery
import importlib.util
import json
import math
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # tests leave the sources alone

PROGRAM, PAPERS_MD = sys.argv[1], Path(sys.argv[2])
REPORTS = Path(__file__).with_name("plot.json")
loader = importlib.machinery.SourceFileLoader("vip_perf_plot", PROGRAM)
plot = importlib.util.module_from_spec(importlib.util.spec_from_loader("vip_perf_plot", loader))
sys.modules["vip_perf_plot"] = plot
loader.exec_module(plot)


def report_of(test):
    return next(report for report in json.loads(REPORTS.read_text()) if report.get("test") == test)


def series_of(test, name):
    return next(one["points"] for one in report_of(test)["series"] if one["name"] == name)


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def save(self, name, content):
        path = self.directory / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return str(path)

    @staticmethod
    @functools.lru_cache
    def figures(*paths, papers=True):
        """Returns all figures, drawn, by their names."""
        plots = plot.plots_of(plot.reports_of(paths or [REPORTS]), plot.papers_rows() if papers else [])
        return {one.name: plot.draw(one) for one in plots}

    def run_program(self, *words, **more):
        done = subprocess.run([PROGRAM, *words, "-o", str(self.directory / "out")], capture_output=True, text=True,
                              timeout=100, **more)
        return done.returncode, done.stdout, done.stderr


def line(figure, begin):
    return next(one for one in figure.axes[0].lines if one.get_label().startswith(begin))


def data(one):
    return [tuple(map(float, point)) for point in one.get_xydata()]


def legend(figure):
    return [text.get_text() for one in figure.legends for text in one.get_texts()]


class Figures(Case):
    def test_all_that_the_documentation_has_can_be_drawn(self):
        text = PAPERS_MD.read_text(encoding="utf-8")
        named = set(re.findall(r"figures/[a-z_]+-([a-z-]+)\.svg", text))
        kept = {path.stem.partition("-")[2] for path in (PAPERS_MD.parent / "figures").iterdir()}
        self.assertGreaterEqual(len(named), 19)
        self.assertEqual((named | kept) - set(self.figures()), set())

    def test_a_line_is_the_numbers_of_a_series(self):
        figure = self.figures()["latency"]
        axes = figure.axes[0]
        for name, shown in (("VIPL send, polling", "VIPL send, polling (via_lo)"), ("TCP, polling", "TCP, polling")):
            points = series_of("latency", name)
            self.assertEqual(data(line(figure, shown)), [(point["bytes"], point["us"]) for point in points])
            self.assertIn(shown, legend(figure))
        self.assertEqual((axes.get_title(), axes.get_xlabel(), axes.get_ylabel()),
                         ("One-way time by message size", "message size (B)", "time: one way, best (µs)"))
        self.assertEqual((axes.get_xscale(), axes.get_yscale()), ("log", "log"))

    def test_the_overview_has_few_lines_at_powers_of_two(self):
        names = legend(self.figures()["overview"])
        self.assertIn("VIPL send, polling (via_lo)", names)
        self.assertEqual([name for name in names if "RDMA write" in name or "blocking" in name], [])
        self.assertEqual(len([name for name in names if re.search(r"\(.* \d{4}\)$", name)]), 3)  # of papers
        for size, _ in data(line(self.figures()["overview"], "VIPL send, polling")):
            self.assertTrue(math.log2(size).is_integer(), size)

    def test_an_average_has_error_bars_and_its_best_and_its_sizes(self):
        figures = self.figures()
        points = [point for point in series_of("echo", "VIPL send, polling, small") if point["bytes"] <= 1024]
        small = figures["echo-latency"]
        self.assertEqual(data(line(small, "VIPL send, polling, small (via_lo), minimum")),
                         [(point["bytes"], point["us_min"]) for point in points])
        bars = small.axes[0].collections[0].get_segments()
        self.assertAlmostEqual(bars[0][1][1] - bars[0][0][1], 2 * points[0]["us_stderr"])
        self.assertIn("TCP, polling, large, maximum", legend(figures["echo-throughput-large"]))
        self.assertNotIn("TCP, polling, small", legend(figures["echo-throughput"]))

    def test_send_is_compared_with_rdma_write_of_the_same_size(self):
        figures = self.figures()
        send, write = (series_of("latency", f"VIPL {what}, polling") for what in ("send", "RDMA write"))
        less = data(line(figures["send-vs-rdma"], "VIPL RDMA write"))
        self.assertEqual(less[0], (send[0]["bytes"], send[0]["us"] - write[0]["us"]))
        self.assertLessEqual(max(size for size, _ in less), 8192)
        part = data(line(figures["send-vs-rdma-ratio"], "VIPL RDMA write"))
        self.assertEqual(part[-1], (send[-1]["bytes"], send[-1]["us"] / write[-1]["us"]))

    def test_a_table_has_a_row_for_each_number(self):
        points = [{"what": "L", "us": -0.5}, {"what": "o_s", "us": 0.25}, {"what": "g", "us": 100}, {"us": 7}]
        path = self.save("r.json", report_of("logp") | {"series": [{"name": "LogP", "points": points}]})
        figure = self.figures(path)["logp"]
        # A value that is not positive is at the edge of the logarithmic axis, with its number beside it.
        self.assertEqual([x for x, _ in data(line(figure, "LogP"))], [0.125, 0.25, 100])
        self.assertEqual(len(set(y for one in figure.axes[0].lines if one.get_label()[0] != "_" for _, y in data(one))),
                         3 + 8)  # includes the papers' lines
        texts = [text.get_text() for text in figure.axes[0].texts]
        self.assertEqual([texts.count(text) for text in ("L", "o_s", "o_r", "g", "-0.5", "0.25", "100")], [1] * 7)
        figure = self.figures()["overhead"]
        self.assertEqual([x for x, _ in data(line(figure, "VIPL / verbs"))], [1.05, 0.98])

    def test_what_grows_has_a_figure_for_each_quantity(self):
        axes = self.figures()["scale-vis-memory"].axes[0]
        self.assertEqual((axes.get_title(), axes.get_xlabel(), axes.get_ylabel()),
                         ("Memory by VIs", "VIs", "memory (KiB)"))
        points = [(point["vis"], point["client_KiB"]) for point in series_of("scale-vis", "one CQ")]
        self.assertEqual(data(line(axes.figure, "one CQ, client, each (via_lo)")), points)

    def test_papers_numbers_are_where_they_belong(self):
        figures = self.figures()
        self.assertEqual(data(line(figures["latency"], "cLAN, polling: 9 µs (Farrell 2001)")), [(1, 9)])
        right = series_of("bandwidth", "VIPL send, polling")[-1]["bytes"]
        self.assertEqual(data(line(figures["bandwidth"], "cLAN, polling: 98.5 MB/s")), [(right, 98.5)])
        band = next(one for one in figures["echo-latency"].axes[0].collections if "cLAN: 20–40 µs" in one.get_label())
        self.assertEqual(band.get_paths()[0].get_extents().extents.tolist(), [16, 20, 1024, 40])
        self.assertEqual(len(data(line(figures["send-vs-rdma"], "HVIA-GE: 1.52 µs"))), 2)
        for figure in self.figures(papers=False).values():
            self.assertFalse([text for text in legend(figure) if re.search(r"\((\w+ \d{4})\)$", text)])

    def test_runs_are_told_apart(self):
        same, other = report_of("latency"), report_of("latency") | {"nic": "rxe0"}
        figure = self.figures(self.save("a.json", same), self.save("b.json", same), self.save("c.json", other))["latency"]
        for name in ("send, polling (via_lo), a", "send, polling (via_lo), b", "send, polling (rxe0)"):
            self.assertIn("VIPL " + name, legend(figure))
        runs = [line(figure, f"VIPL send, polling ({name}") for name in ("via_lo), a", "via_lo), b", "rxe0")]
        self.assertEqual(len({one.get_color() for one in runs}), 1)
        self.assertEqual(len({one.get_linestyle() for one in runs}), 3)

    def test_series_have_different_colours_and_usual_ones_theirs(self):
        usual = [f"{what}, {how}" for what in ("VIPL send", "VIPL RDMA write", "VIPL RDMA read", "TCP", "Unix socket")
                 for how in ("polling", "blocking", "spinning, then blocking")]
        alone = {name: plot.colours_of([name])[name] for name in usual}
        self.assertEqual(plot.colours_of(["other", *usual, "another"]).items() & alone.items(), alone.items())
        self.assertEqual(len(set(plot.colours_of(["a", *usual, "b", "c"]).values())), len(usual) + 3)

    def test_legends_are_below_the_axes(self):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        for name, figure in self.figures().items():
            FigureCanvasAgg(figure).draw()
            axes = figure.axes[0].get_tightbbox()
            for one in figure.legends:
                self.assertLess(one.get_window_extent().y1, axes.y0, name)
                self.assertGreaterEqual(one.get_window_extent().y0, 0, name)
            self.assertGreaterEqual(axes.x0, 0, name)


class Program(Case):
    def test_writes_what_it_names_and_always_the_same(self):
        code, said, err = self.run_program(str(REPORTS), "--format", "svg", "--title", "A & <machine> of $ours$")
        files = [Path(path) for path in said.split()]
        self.assertEqual((code, err, len(files)), (0, "", len(self.figures())))
        first = {path: path.read_text(encoding="utf-8") for path in files}
        self.assertIn("A &amp; &lt;machine&gt; of $ours$: LogP parameters</text>", first[self.directory / "out-logp.svg"])
        self.run_program(str(REPORTS), "--format", "svg", "--title", "A & <machine> of $ours$")
        self.assertEqual(first, {path: path.read_text(encoding="utf-8") for path in files})

    def test_what_is_no_report_is_told_in_a_sentence(self):
        good = report_of("latency")
        wrong = ["", "{", "7", "null", "[[]]", "{}", "[" * 100000, {"case": {"ratio": "1"}}]
        wrong += [good | {key: value} for key in ("test", "columns", "series") for value in (7, [7], None, {})]
        wrong += [good | {"test": "nonsense"}, good | {"series": [{"name": "x", "points": [7]}]}]
        wrong += [good | {"series": [{"name": "x", "points": [{"bytes": "1", "us": 1e300}, {"us": [True]}]}]}]
        for number, content in enumerate(wrong):
            with self.assertRaises(plot.Failure, msg=content):
                self.figures(self.save(f"wrong{number}.json", content))
        for path in (self.save("wrong1.json", "{"), str(self.directory), str(self.directory / "missing.json")):
            code, said, err = self.run_program(str(REPORTS), path)
            self.assertEqual((code, said, err.count("\n")), (1, "", 1), err)
            self.assertTrue(err.startswith(f"vip_perf_plot: {path}: "), err)
        self.assertEqual({path.suffix for path in self.directory.iterdir()}, {".json"})

    def test_where_nothing_can_be_written_and_without_matplotlib(self):
        path = self.save("r.json", report_of("waking"))
        self.assertEqual(self.run_program(path)[0], 0)
        self.assertEqual((self.directory / "out-waking.png").read_bytes()[1:4], b"PNG")
        (self.directory / "out-waking.svg").unlink()
        (self.directory / "out-waking.svg").mkdir()
        code, said, err = self.run_program(path)
        self.assertEqual((code, said, err.count("\n")), (1, "", 1), err)
        self.save("matplotlib.py", "raise ModuleNotFoundError")
        code, said, err = self.run_program(path, env={"PYTHONPATH": str(self.directory), "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual((code, said, err.count("\n")), (1, "", 1), err)
        self.assertIn("python3-matplotlib", err)

    def test_wrong_usage(self):
        self.assertEqual(self.run_program(str(REPORTS), "--format", "gif")[0], 2)
        self.assertEqual(self.run_program()[0], 2)


class Papers(unittest.TestCase):
    def cell(self, row):
        """Returns the cell of a table in the paper's chapter."""
        text = PAPERS_MD.read_text(encoding="utf-8")
        text = text.partition(f"\n## {row['paper']}\n")[2].partition("\n## ")[0]
        for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
            head, _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in table.splitlines())
            for cells in rows:
                if cells[0] == row["row"] and row["column"] in head:
                    return cells[head.index(row["column"])]
        self.fail(f"no such row and column: {row}")

    def test_numbers_that_the_documentation_shows_are_where_they_belong(self):
        rows = plot.papers_rows()
        for row in rows:
            self.assertTrue(row["where"] and row["hardware"] and (row["value"] or row["low"] and row["high"]), row)
        shown = [row for row in rows if row["row"]]
        self.assertGreater(len(shown), 60)
        for row in shown:
            unit = 1000 if row["figures"] == "connect" else 1  # the unit of this figure is milliseconds
            numbers = [number.rstrip(".") for number in re.findall(r"[\d.]+", self.cell(row))]
            for key in ("value", "low", "high"):
                if row[key]:
                    self.assertIn("%.4g" % (float(row[key]) / unit), numbers, row)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
