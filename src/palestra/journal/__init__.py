"""The one chronological book and the record beside it: rows and bodies in, the same bytes out for ever. Edge."""
