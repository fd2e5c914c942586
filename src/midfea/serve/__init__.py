"""The teach page: a small web server around a folder of images, for people who do not use a terminal.

`store` keeps the folder, `training` trains in a process of its own, `api` answers requests and turns
away those that do not come from the page, `page` is the page.
"""
