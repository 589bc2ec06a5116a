"""Where jobs run: processes that outlive the server, executors that place attempts, corners' homes."""
