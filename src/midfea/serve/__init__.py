"""The teach page: a small web server around a folder of images, for people who will not open a terminal.

`workspace` keeps the folder, `job` trains in a process of its own, `app` answers requests, `guard` turns
away those that are not the page's own.
"""
