"""The pages of lists of episodes and rollouts and of one episode, and what all pages use."""
