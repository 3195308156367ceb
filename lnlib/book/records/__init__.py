"""What was recorded: tables of results, the code that made them, and what chapters draw of them."""
