"""The flash server: the task, and the service that it offers on channels."""
