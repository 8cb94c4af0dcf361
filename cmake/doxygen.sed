# Marks kiln's comments for Doxygen: a comment at the beginning of a line describes what follows it,
# and a comment after a member describes the member.
s,^( *)/\* ,\1/** ,
s,^( *)/\*$,\1/**,
s,([;\,{]) +/\*+ ,\1 /**< ,
s,^( \*.*)#include,\1\\#include,
