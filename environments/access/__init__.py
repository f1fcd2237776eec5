"""Who may do what: the permissions of people, which groups give them, and who may see private
environments."""
