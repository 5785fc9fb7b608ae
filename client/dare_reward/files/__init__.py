"""Files of users: read in the forms that they have, written whole or not at all."""
