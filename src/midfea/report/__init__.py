"""The report: one HTML file that needs nothing else, for people who will not read code."""

from midfea.report.gallery import Gallery
from midfea.report.page import Facts, write_report

__all__ = ["Facts", "Gallery", "write_report"]
