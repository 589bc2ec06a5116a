"""What entrants train with, and the embedded model server: it meets `palestra` only through files, argv and HTTP."""
