"""The pages about recorded episodes. Each module serves one page; the figures come from
`episodes.analytics`."""
