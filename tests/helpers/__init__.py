"""What more than one file of the tests needs."""
