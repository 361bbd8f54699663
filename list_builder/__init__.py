"""Build the data of the cleaned word lists: which of wordfreq's entries count, and with which capitals."""
