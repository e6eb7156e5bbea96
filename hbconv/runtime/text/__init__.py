"""From texts and categories to codes and sparse rows."""
