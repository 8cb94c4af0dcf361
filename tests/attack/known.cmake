# Attacks that kilnd does not resist yet. Their tests expect that a bound is broken, and fail as
# soon as all bounds hold. The commit that repairs the last broken bound of an attack removes the
# attack from this list.
set(KILN_KNOWN_ATTACKS)
