"""Pages of studies: those of the people who take part, and those of the people who run one."""
