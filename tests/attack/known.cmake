# Attacks that kilnd does not resist yet.  Their tests expect a broken bound, and fail as soon as all
# bounds hold: the commit that repairs the last one of an attack removes it here.
set(KILN_KNOWN_ATTACKS)
