"""What is so: folds of events into one state that the referee reads, and a catalogue that pages read. Pure."""
