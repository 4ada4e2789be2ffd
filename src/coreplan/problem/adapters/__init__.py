"""Adapters: problems from other libraries' environments. Each imports its library only when it is called."""
