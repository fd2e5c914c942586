"""The report: one HTML file that needs nothing else, for people who will not read code."""

from midfea.report.answers import Answers
from midfea.report.facts import Facts
from midfea.report.page import write_report

__all__ = ["Answers", "Facts", "write_report"]
