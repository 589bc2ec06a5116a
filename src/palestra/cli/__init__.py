"""The organiser's command: one module a verb, loaded only when it is called."""
