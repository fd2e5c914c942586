"""The report: one HTML file that needs nothing else, for people who will not read code."""

from midfea.report.facts import Facts
from midfea.report.gallery import Gallery
from midfea.report.page import write_report

__all__ = ["Facts", "Gallery", "write_report"]
