"""What runs do: a demonstration, the streaming job, a check of servers, a replay of a file."""
