"""How outside events come in: the device SDK, the HTTP gateway, importers of other logs."""
