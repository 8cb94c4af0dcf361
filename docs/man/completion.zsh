# The rest is the same for every program of kiln.

# Prints kilnctl's answer from the kilnd that the command line names. Prints nothing if none arrives
# within KILN_COMPLETION_TIMEOUT (half a second).
_kiln_ask() {
    local -a to
    local at=${line_words[(I)--socket]}
    if (( at && at < $#line_words )); then
        to=(--socket "${(Q)line_words[at + 1]}")
    else
        at=${line_words[(I)--socket=*]}
        (( at )) && to=("${(Q)line_words[at]}")
    fi
    command kilnctl "$@" --timeout "${KILN_COMPLETION_TIMEOUT:-500ms}" $to 2>/dev/null </dev/null
}

# Prints column |2| of the table after the line that begins with |1|, up to an empty line.
_kiln_column() {
    local one in=no
    local -a fields
    while IFS= read -r one; do
        if [[ $one == "$1"* ]]; then
            in=yes
        elif [[ -z $one ]]; then
            in=no
        elif [[ $in == yes ]]; then
            fields=(${=one})
            print -r -- "$fields[$2]"
        fi
    done
}

# Prints the text of every JSON member with the name |1|.
_kiln_member() {
    local left pattern="\"$1\": *\"([^\"]*)\"(.*)"
    local -a match
    left=$(<&0)
    while [[ $left =~ $pattern ]]; do
        print -r -- $match[1]
        left=$match[2]
    done
}

_kiln_list() {
    case $1 in
    (target)
        _kiln_known_targets
        _kiln_ask toolchain ls | _kiln_column 'TOOLCHAIN ' 2
        ;;
    (toolchain) _kiln_ask toolchain ls | _kiln_column 'NAME ' 1 ;;
    (package) _kiln_ask pkg ls | _kiln_column 'NAME ' 1 ;;
    (database_id) _kiln_ask device ls --json | _kiln_member database_id ;;
    (job) _kiln_ask trace ls | _kiln_column 'JOB ' 1 ;;
    (key) _kiln_ask kernel ls --limit 100 | _kiln_column 'KEY ' 1 ;;
    esac
}

# An action of _arguments: "_kiln_offer KIND". Arguments before KIND are passed to compadd.
_kiln_offer() {
    local -aU found
    found=(${(f)"$(_kiln_list ${@[-1]})"})
    compadd "${@[1,-2]}" -a found
}

# Offers the commands, or those of group |2|.
_kiln_describe() {
    local -a listed shown
    local one
    if [[ -z $2 ]]; then
        _${1}_groups
        shown=($listed)
    fi
    _${1}_commands
    for one in $listed; do
        if [[ -n $2 ]]; then
            [[ $one == "$2 "* ]] && shown+=("${one#$2 }")
        elif [[ ${one%%:*} != *' '* ]]; then
            shown+=("$one")
        fi
    done
    _describe -t commands command shown
}

_kiln_complete() {
    local program=$1 name
    local -a line_words listed specs
    local context state state_descr line
    typeset -A opt_args
    line_words=($words)
    _${program}_commands
    _${program}_specs ''
    if (( ! $#listed )); then
        _arguments -s -S : $specs
        return
    fi
    _arguments -C -s -S : $specs '1:command:->command' '*:: :->words' && return
    if [[ $state == command ]]; then
        _kiln_describe $program
        return
    fi
    _${program}_commands
    name=$words[1]
    if (( ! ${listed[(I)$name:*]} )); then
        if (( CURRENT == 2 )); then
            _kiln_describe $program $name
            return
        fi
        name+=" $words[2]"
        shift words
        (( CURRENT-- ))
    fi
    specs=()
    _${program}_specs $name
    _arguments -s -S : $specs
}
