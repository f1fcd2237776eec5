"""What the reward doctor looks for: a function for each flaw, which returns a DoctorFinding about a
scope."""
