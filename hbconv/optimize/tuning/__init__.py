"""What timing decided: contenders, records of their times, and the plans that follow from them."""
