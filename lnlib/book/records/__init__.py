"""What was recorded: tables of results, and what chapters draw of them."""
