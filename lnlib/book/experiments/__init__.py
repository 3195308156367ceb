"""What the chapters train, measure and try: networks, data in order, and their rivals."""
