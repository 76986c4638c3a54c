"""What an event is: the .proto files, their classes, the topic catalogue and the edge's checks."""
