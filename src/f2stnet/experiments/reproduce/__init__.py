"""The paper's tables and figures: declared as suites, run into records, rendered from records alone."""
