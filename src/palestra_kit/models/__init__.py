"""Base models: one file each, a function that fills a folder; `sheet` writes what all of them have beside their weights."""
