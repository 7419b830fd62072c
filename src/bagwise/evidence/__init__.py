"""What is known of bags, read from what the user gives and checked: one statement per bag, whatever its kind."""
